"""Prometheus metrics, and log records as lines of JSON."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from judgegym.judges.config.extras import MissingExtraError, install_command, require
from judgegym.judges.scorers.items import ResponseScore
from judgegym.server.answers import RequestError
from judgegym.server.operation.health import CohortEvent

logger = logging.getLogger(__name__)

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_SCORES = tuple(place / 10 for place in range(11))
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)


class Telemetry:
    """Counts nothing; used if prometheus-client is not installed."""

    def judged(self, judge: str, result: ResponseScore) -> None:
        """Count a response."""

    def cohort(self, judge: str, event: CohortEvent) -> None:
        """Count an event of a cohort."""

    def requested(self, judge: str, protocol: str, code: int, seconds: float) -> None:
        """Count a request."""

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format.

        Raises:
            RequestError: there are none.
        """
        raise RequestError(501, "not_installed", f"metrics need prometheus-client: {install_command('server')}")


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


class _Children(dict[tuple[str, ...], Any]):
    """The children of a metric by the values of their labels: prometheus-client looks each up anew, under a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        child = self[labels] = self._metric.labels(*labels)
        return child


class PrometheusTelemetry(Telemetry):
    """The metrics of one process; with several workers `exposition` sums over all."""

    def __init__(self, pending: Callable[[], int]) -> None:
        """Start at zero."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        registry = CollectorRegistry()
        self._registry = registry
        self._pending = pending
        self._is_shared = MULTIPROCESS in os.environ

        def counter(name: str, about: str, *labels: str) -> _Children:
            return _Children(Counter(f"judgegym_{name}", about, labels, registry=registry))

        self._requests = counter("requests", "Requests for scores", "judge", "protocol", "code")
        seconds = Histogram(
            "judgegym_request_seconds",
            "Latency of requests for scores",
            ("judge", "protocol"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._seconds = _Children(seconds)
        self._judge_seconds = _Children(
            Histogram(
                "judgegym_judge_call_seconds",
                "Time of calls to the judge, with what was sent again and its pauses",
                ("judge",),
                buckets=_BUCKETS,
                registry=registry,
            )
        )
        self._scores = _Children(
            Histogram("judgegym_score", "Scores, from 0 to 1", ("judge",), buckets=_SCORES, registry=registry)
        )
        self._responses = counter("responses", "Responses judged", "judge", "status")
        self._equal = counter("equal_responses", "Responses with the judgment of an equal one", "judge")
        self._calls = counter("judge_calls", "Calls to the judge", "judge")
        self._failures = counter("judge_failures", "Responses that the judge gave no score", "judge")
        self._attempts = counter(
            "judge_attempts", "Requests sent to the judge's endpoint, with those sent again", "judge"
        )
        self._cached = counter("cache_hits", "Responses that the cache answered", "judge")
        self._tokens = counter("prompt_tokens", "Prompt tokens sent to judges", "judge")
        self._cached_tokens = counter(
            "cached_prompt_tokens", "Prompt tokens that judges' endpoints had in a prefix cache", "judge"
        )
        self._cost = counter("cost_usd", "US dollars that judges cost", "judge")
        open_cohorts = Gauge(
            "judgegym_cohorts_open",
            "Cohorts that wait for members",
            ("judge",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._open_cohorts = _Children(open_cohorts)
        self._closed_cohorts = counter(
            "cohorts_closed", "Cohorts closed with all members (full), or without some (short)", "judge", "how"
        )
        self._late_members = counter("late_members", "Members that came after their cohort was closed", "judge")
        self._in_flight = Gauge(
            "judgegym_in_flight", "Judgments under way or waiting", registry=registry, multiprocess_mode="livesum"
        )

    def judged(self, judge: str, result: ResponseScore) -> None:
        """Count a judged response, or one that has the judgment of an equal one and cost nothing."""
        if result.shared:
            self._equal[judge,].inc()
            return
        self._responses[judge, result.status].inc()
        self._calls[judge,].inc(result.judge_calls)
        self._tokens[judge,].inc(result.usage.prompt_tokens)
        self._cached_tokens[judge,].inc(result.usage.cached_prompt_tokens)
        for run in result.runs.values():
            if not run.cached:
                self._judge_seconds[judge,].observe(run.latency_s)
                self._attempts[judge,].inc(run.attempts)
        cost, was_paid = result.usage.cost, result.score is not None and result.judge_calls and not result.cached
        if cost or (cost is not None and was_paid):  # a cost that is not known has no series, rather than one of 0
            self._cost[judge,].inc(cost)
        if result.score is not None:
            self._scores[judge,].observe(result.score)
        elif result.is_failed:
            self._failures[judge,].inc()
        if result.cached:
            self._cached[judge,].inc()

    def cohort(self, judge: str, event: CohortEvent) -> None:
        """Count an event of a cohort."""
        if event == "opened":
            self._open_cohorts[judge,].inc()
        elif event == "late":
            self._late_members[judge,].inc()
        else:
            self._open_cohorts[judge,].dec()
            self._closed_cohorts[judge, event].inc()

    def requested(self, judge: str, protocol: str, code: int, seconds: float) -> None:
        """Count a request and its latency."""
        self._requests[judge, protocol, str(code)].inc()
        self._seconds[judge, protocol].observe(seconds)
        if self._is_shared:  # another worker may be asked for the metrics
            self._in_flight.set(self._pending())

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self._in_flight.set(self._pending())
        if self._is_shared:
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            return generate_latest(together)
        return generate_latest(self._registry)


def forget_worker(pid: int, folder: str) -> None:
    """Leave a worker that has died out of the judgments under way; what it counted stays.

    Args:
        pid: of the worker.
        folder: where the workers' counters are.
    """
    try:
        from prometheus_client.multiprocess import mark_process_dead
    except ImportError:  # no metrics
        return
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message and its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, object] = {
            "time": f"{_second(int(record.created))}.{int(record.msecs):03d}Z",
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


@lru_cache(maxsize=2)  # many requests end within one second
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
