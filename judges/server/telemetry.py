"""Prometheus metrics, and log records as lines of JSON."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

import orjson

from judges.config.extras import MissingExtraError, require
from judges.server.errors import RequestError
from judges.server.items import ResponseScore

logger = logging.getLogger(__name__)

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)


class Telemetry:
    """Counts nothing; used if prometheus-client is not installed."""

    def judged(self, judge: str, result: ResponseScore) -> None:
        """Count a response."""

    def requested(self, judge: str, protocol: str, code: int, seconds: float) -> None:
        """Count a request."""

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format.

        Raises:
            RequestError: there are none.
        """
        raise RequestError(501, "not_installed", "metrics need prometheus-client: pip install 'judgegym[server]'")


def telemetry(pending: Callable[[], int]) -> Telemetry:
    """The metrics of this process.

    Args:
        pending: returns the number of judgments in flight or waiting.
    """
    try:
        require("server")
    except MissingExtraError as error:
        logger.warning("/metrics is off: %s", error)
        return Telemetry()
    return PrometheusTelemetry(pending)


class PrometheusTelemetry(Telemetry):
    """The metrics of one process; with several workers `exposition` sums over all."""

    def __init__(self, pending: Callable[[], int]) -> None:
        """Start at zero."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        registry = CollectorRegistry()
        self._registry = registry
        self._pending = pending
        names = ("judge", "protocol", "code")
        self._requests = Counter("judgegym_requests", "Requests for scores", names, registry=registry)
        self._seconds = Histogram(
            "judgegym_request_seconds", "Latency of requests for scores", names[:2], buckets=_BUCKETS, registry=registry
        )
        self._responses = Counter("judgegym_responses", "Responses judged", ("judge", "status"), registry=registry)
        self._equal = Counter(
            "judgegym_equal_responses", "Responses with the judgment of an equal one", ("judge",), registry=registry
        )
        self._calls = Counter("judgegym_judge_calls", "Calls to the judge", ("judge",), registry=registry)
        self._failures = Counter("judgegym_judge_failures", "Responses without a score", ("judge",), registry=registry)
        self._cached = Counter(
            "judgegym_cache_hits", "Responses that the cache answered", ("judge",), registry=registry
        )
        self._tokens = Counter("judgegym_prompt_tokens", "Prompt tokens sent to judges", ("judge",), registry=registry)
        self._cached_tokens = Counter(
            "judgegym_cached_prompt_tokens",
            "Prompt tokens that judges' endpoints had in a prefix cache",
            ("judge",),
            registry=registry,
        )
        self._cost = Counter("judgegym_cost_usd", "US dollars that judges cost", ("judge",), registry=registry)
        self._in_flight = Gauge(
            "judgegym_in_flight", "Judgments under way or waiting", registry=registry, multiprocess_mode="livesum"
        )

    def judged(self, judge: str, result: ResponseScore) -> None:
        """Count a judged response, or one that has the judgment of an equal one and cost nothing."""
        if result.shared:
            self._equal.labels(judge).inc()
            return
        self._responses.labels(judge, result.status).inc()
        self._calls.labels(judge).inc(result.judge_calls)
        self._tokens.labels(judge).inc(result.usage.prompt_tokens)
        self._cached_tokens.labels(judge).inc(result.usage.cached_prompt_tokens)
        if result.usage.cost is not None:  # a cost that is not known has no series, rather than one of 0
            self._cost.labels(judge).inc(result.usage.cost)
        if result.failed:
            self._failures.labels(judge).inc()
        if result.cached:
            self._cached.labels(judge).inc()

    def requested(self, judge: str, protocol: str, code: int, seconds: float) -> None:
        """Count a request and its latency."""
        self._requests.labels(judge, protocol, str(code)).inc()
        self._seconds.labels(judge, protocol).observe(seconds)
        self._in_flight.set(self._pending())

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self._in_flight.set(self._pending())
        if MULTIPROCESS in os.environ:
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            return generate_latest(together)
        return generate_latest(self._registry)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message and its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()
