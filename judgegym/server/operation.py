"""Health of the judges, records of their results, Prometheus metrics, and JSON log lines.

A judge is down while its client waits for it (which the client logs), and after several judgments
in a row that failed or came late. It is up again after a response: to a judgment, or to a probe, a
request for a completion of one token. Probes are sent when the endpoint is reachable again, and
when a judge that is down gets no requests. An open port or a list of models proves nothing: both
respond before the model is loaded, and even if every completion fails.

Results and cohort events are recorded for the metrics, the judge's health, and the page of recent
judgments.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import orjson

from judgegym.judges.config.extras import MissingExtraError, install_command, require
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import BUDGET_SPENT, ResponseJudgment, make_failure, share_judgment
from judgegym.llm.at_once import cancel_all, gather_results
from judgegym.llm.client import ChatClient, ChatResponse
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.monitoring.alarms import Alarm
from judgegym.server.answers import RequestError

logger = logging.getLogger(__name__)

FAILURES = 3
"""Number of failed judgments in a row after which a judge is down; one may be due to its prompt."""
_POLL_S = 0.5
_QUIET_S = 30.0
"""Seconds without a finished judgment after which a judge that is down is probed."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
"""Limit of the pause between two probes, each of which has the client's own retries and pauses."""


class JudgeHealth:
    """The state of one judge.

    Attributes:
        client: calls the judge, and waits while it is unreachable.
    """

    def __init__(
        self, client: ChatClient, name: str, telemetry: Telemetry, *, asks_endpoint: bool = True
    ) -> None:
        """Watch the judge behind a client; a judge without an endpoint is never probed."""
        self.client = client
        self._name = name
        self._telemetry = telemetry
        self._asks_endpoint = asks_endpoint
        self._failures = 0
        self._reason = ""
        self._latest = time.monotonic()
        self._is_unproven = False
        self._probing: asyncio.Task[None] | None = None
        self._next_probe_at = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def note(self, result: ResponseJudgment) -> None:
        """Take a judgment's result into account.

        A result without a request, as from the cache, proves nothing.
        """
        self._latest = time.monotonic()
        if result.status == Status.JUDGE_FAILED.value:
            self._failures += 1
            self._reason = result.explanation
        elif not self._asks_endpoint or (result.judge_calls and not result.cached):
            self._note_answer()

    def note_late(self) -> None:
        """Note that a request got its response before its judgment was ready."""
        self.note(
            make_failure(
                ": ".join(filter(None, ("no answer within the server's deadline", self.last_error)))
            )
        )

    def note_unreachable(self) -> None:
        """Note that the judge is unreachable; from then on only a response proves it up."""
        self._is_unproven = self._is_unproven or self.client.waiting is not None

    def _note_answer(self) -> None:
        self._failures = 0
        self._is_unproven = False
        self._pause_s = _FIRST_PAUSE_S

    @property
    def is_down(self) -> bool:
        """Whether the judge is unreachable, silent since then, or failed several times in a row."""
        return self.client.waiting is not None or self._is_unproven or self._failures >= FAILURES

    @property
    def trouble(self) -> str | None:
        """The reason why a reachable judge is down; `None` if it is not down."""
        if self.client.waiting is not None:
            return None
        if self._failures >= FAILURES:
            return (
                f"{self._failures} judgments in a row without an answer; the last one: "
                f"{self._reason}"
            )
        failed = next(
            (client.last_failure for client in self._clients if client.last_failure is not None),
            None,
        )
        if self._is_unproven and failed is not None and failed.kind is not FailureKind.UNREACHABLE:
            return f"it is there again, and has answered no request since: {failed}"
        return None

    @property
    def last_error(self) -> str | None:
        """The error that calls wait for, or the endpoint's last one; `None` after a success."""
        failed = next(
            (client.last_failure for client in self._clients if client.last_failure is not None),
            None,
        )
        return self.client.waiting or (None if failed is None else str(failed))

    @property
    def _clients(self) -> Sequence[ChatClient]:
        return [
            client
            for client in (self.client, *self.client.siblings)
            if isinstance(client, ChatClient)
        ]

    def probe_if_down(self) -> None:
        """Probe a judge that is reachable again, or that is down and gets no requests.

        While calls or a probe are in progress, their results will tell.
        """
        now = time.monotonic()
        is_quiet = self._failures >= FAILURES and now - self._latest >= _QUIET_S
        is_asked = any(client.breaker.calls for client in self._clients)
        if self.client.waiting is not None or is_asked or not (self._is_unproven or is_quiet):
            return
        is_probing = self._probing is not None and not self._probing.done()
        if self._asks_endpoint and not is_probing and now >= self._next_probe_at:
            self._probing = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        """Probe each failing model, with its client's retries; double the pause before the next."""
        failing = [client for client in self._clients if client.last_failure is not None]
        models = failing or [self.client]
        pause_s = self._pause_s
        self._pause_s = min(2.0 * self._pause_s, _LONGEST_PAUSE_S)
        try:
            outcomes = await gather_results(model.probe() for model in models)
        finally:
            self._next_probe_at = time.monotonic() + pause_s
        for outcome in outcomes:
            self._telemetry.count_probe(self._name, outcome)
        if all(isinstance(outcome, ChatResponse) for outcome in outcomes):
            self._note_answer()

    async def aclose(self) -> None:
        """Cancel the probe."""
        if self._probing is not None:
            await cancel_all([self._probing])


async def watch_health(judges: Mapping[str, JudgeHealth]) -> None:
    """Log once when a judge goes down and once when it is back, and probe judges; never returns."""
    down: dict[str, float] = {}
    while True:
        for name, health in [*judges.items()]:
            trouble = health.trouble
            if trouble is not None and name not in down:
                down[name] = time.monotonic()
                logger.warning(
                    "the judge does not answer: %s", trouble, extra={"fields": {"judge": name}}
                )
            elif trouble is None and name in down:
                seconds = round(time.monotonic() - down.pop(name), 1)
                logger.warning(
                    "the judge is back", extra={"fields": {"judge": name, "seconds": seconds}}
                )
            health.probe_if_down()
        await asyncio.sleep(_POLL_S)


MAX_RECENT = 100
_SHOWN = 4000
_LATE = "the judge did not answer within the server's deadline"

CohortEvent: TypeAlias = Literal["opened", "full", "short", "late"]
"""Events of a cohort: it was opened; it was closed full or short; a member came late."""


@dataclass(frozen=True, slots=True)
class RecentJudgment:
    """A finished judgment for the page, with long texts cut."""

    at: float
    mount: str
    prompt: str
    response: str
    result: ResponseJudgment
    seconds: float


class Record:
    """Records the results of all judges of a process.

    Attributes:
        recent: the latest judgments.
        telemetry: counts results and cohort events.
        health: the judges' health, by name.
    """

    def __init__(self, health: Mapping[str, JudgeHealth], telemetry: Telemetry) -> None:
        """Report results to the telemetry, and judges' responses to their health."""
        self.health = health
        self.telemetry = telemetry
        self.recent: deque[RecentJudgment] = deque(maxlen=MAX_RECENT)

    def record_judgment(
        self,
        mount: str,
        prompt: str,
        responses: Sequence[str],
        results: Sequence[ResponseJudgment],
        seconds: float,
        health: JudgeHealth | None = None,
        *,
        is_late: bool = False,
    ) -> None:
        """Record the results of a judgment: those of the responses that were judged together.

        The failure of a late judgment was counted already.
        """
        for response, result in zip(responses, results, strict=True):
            if not result.shared:
                (health or self.health[mount]).note(result)
            self.record_result(mount, prompt, response, result, seconds, is_late=is_late)

    def record_result(
        self,
        mount: str,
        prompt: str,
        response: str,
        result: ResponseJudgment,
        seconds: float = 0.0,
        *,
        is_late: bool = False,
    ) -> None:
        """Record the result of a response, with or without a judge."""
        self.telemetry.count_judgment(mount, result)
        if result.is_failed and not result.shared and not is_late:
            self.telemetry.count_failure(
                mount, result.cause or _CAUSES.get(result.status, "failed")
            )
        self.recent.append(
            RecentJudgment(
                time.time(), mount, _cut(prompt), _cut(response), result, round(seconds, 3)
            )
        )

    def record_shared(self, mount: str, result: ResponseJudgment) -> ResponseJudgment:
        """Record a shared result, and return it without its cost."""
        result = share_judgment(result)
        self.telemetry.count_judgment(mount, result)
        return result

    def record_overdue(
        self, mount: str, health: JudgeHealth, *, is_counted: bool
    ) -> ResponseJudgment:
        """Return and record the failure of a caller whose judgment is late, once a judgment."""
        self.telemetry.count_unjudged(mount, "late")
        if not is_counted:
            self.telemetry.count_failure(mount, "late")
        return make_failure(": ".join(filter(None, (_LATE, health.last_error))))


def _cut(text: str) -> str:
    length = len(text)
    if length <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}… ({length} characters, cut here)"


MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_SCORE_BUCKETS = tuple(place / 10 for place in range(11))
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)


COUNTERS: Mapping[str, tuple[str, str]] = {
    "requests": ("Requests for scores", "judge protocol code"),
    "responses": ("Responses judged", "judge status"),
    "equal_responses": ("Deduplicated responses, which cost no call", "judge"),
    "thinking_removed": ("Responses judged without the thinking at their start", "judge"),
    "judge_calls": ("Calls to the judge", "judge"),
    "judge_failures": (
        "Responses that the judge did not score, or not in time, by cause",
        "judge cause",
    ),
    "unscored_responses": ("Responses without a score, by cause", "judge cause"),
    "unjudged_answers": (
        "Failures sent to a trainer without a failed judgment, by cause",
        "judge cause",
    ),
    "attempt_failures": ("Requests to the judge's endpoint that failed, by cause", "judge cause"),
    "probes": (
        "Completions of one token that test an unreachable judge, by outcome",
        "judge outcome",
    ),
    "judge_attempts": ("Requests sent to the judge's endpoint, retries included", "judge"),
    "cache_hits": ("Responses scored from the cache", "judge"),
    "prompt_tokens": ("Prompt tokens sent to judges", "judge"),
    "cached_prompt_tokens": (
        "Prompt tokens that judges' endpoints read from a prefix cache",
        "judge",
    ),
    "completion_tokens": ("Completion tokens received from judges, reasoning included", "judge"),
    "cost_usd": ("US dollars that judges cost, where prices are known", "judge"),
    "unpriced_responses": ("Responses of unknown cost, not in cost_usd", "judge"),
    "cohorts_closed": (
        "Groups of separate requests that were judged, with all members (full) or not (short)",
        "judge how",
    ),
    "alarms": ("Alarms of monitors", "judge monitor"),
    "late_members": ("Members that came after their group was judged", "judge"),
}
"""Description and labels of each counter."""
GAUGES: Mapping[str, tuple[str, str]] = {
    "cohorts_open": ("Groups that wait for members", "judge"),
    "in_flight": ("Judgments in progress or waiting", ""),
    "monitor": ("The latest number of a monitor", "judge monitor"),
    "gold_responses": ("Responses for the gold judge, by outcome", "judge outcome"),
}
"""Description and labels of each gauge."""
HISTOGRAMS: Mapping[str, tuple[str, str, Sequence[float]]] = {
    "request_seconds": ("Latency of requests for scores", "judge protocol", _BUCKETS),
    "judge_call_seconds": (
        "Latency of calls to the judge, retries included",
        "judge",
        _BUCKETS,
    ),
    "queue_seconds": (
        "Wait of calls before their first request: budget, rate and concurrency limits",
        "judge",
        _BUCKETS,
    ),
    "score": ("Scores, from 0 to 1", "judge", _SCORE_BUCKETS),
}


class _Children(dict[tuple[str, ...], Any]):
    """A metric's children by label values; prometheus-client looks each up under a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        child = self[labels] = self._metric.labels(*labels)
        return child


_CAUSES: Mapping[str, str] = {
    Status.JUDGE_FAILED.value: "failed",
    Status.UNPARSABLE.value: "unparsable",
    Status.INVALID_COMPLETION.value: "empty",
    BUDGET_SPENT: "budget",
}
"""The cause of each status without a score; refusals and cut-off texts have causes of their own."""


class _NullMetric:
    """A metric, with its children, that counts nothing."""

    def __getitem__(self, labels: tuple[str, ...]) -> _NullMetric:
        return self

    def inc(self, amount: float = 1) -> None:
        """Count nothing."""

    dec = observe = set = inc


class Telemetry:
    """The metrics of one process; with several workers `exposition` sums over all."""

    def __init__(self, *, is_counted: bool = False) -> None:
        """Start at zero; by default, and without prometheus-client, nothing is counted."""
        self._registry: Any = None
        self._is_shared = MULTIPROCESS in os.environ
        nothing: Any = _NullMetric()
        self._counters: dict[str, Any] = dict.fromkeys(COUNTERS, nothing)
        self._histograms: dict[str, Any] = dict.fromkeys(HISTOGRAMS, nothing)
        self._open_cohorts = self._in_flight = self._monitors = self._gold = nothing
        if is_counted:
            self._count()

    def _count(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()

        def gauge(name: str) -> Gauge:
            about, labels = GAUGES[name]
            return Gauge(
                f"judgegym_{name}",
                about,
                labels.split(),
                registry=registry,
                multiprocess_mode="livesum",
            )

        self._counters = {
            name: _Children(Counter(f"judgegym_{name}", about, labels.split(), registry=registry))
            for name, (about, labels) in COUNTERS.items()
        }
        self._histograms = {
            name: _Children(
                Histogram(
                    f"judgegym_{name}", about, labels.split(), buckets=buckets, registry=registry
                )
            )
            for name, (about, labels, buckets) in HISTOGRAMS.items()
        }
        self._open_cohorts = _Children(gauge("cohorts_open"))
        self._in_flight = gauge("in_flight")
        self._monitors = _Children(gauge("monitor"))
        self._gold = _Children(gauge("gold_responses"))

    def count_judgment(self, judge: str, result: ResponseJudgment) -> None:
        """Count a judged response, or one that shares an identical response's judgment for free."""
        counters = self._counters
        if result.shared:
            counters["equal_responses"][judge,].inc()
            return
        counters["responses"][judge, result.status].inc()
        counters["judge_calls"][judge,].inc(result.judge_calls)
        counters["prompt_tokens"][judge,].inc(result.usage.prompt_tokens)
        counters["completion_tokens"][judge,].inc(result.usage.completion_tokens)
        counters["cached_prompt_tokens"][judge,].inc(result.usage.cached_prompt_tokens)
        for run in result.runs.values():
            if not run.cached:
                self._histograms["judge_call_seconds"][judge,].observe(run.latency_s)
                counters["judge_attempts"][judge,].inc(run.attempts)
        cost = result.usage.cost
        was_paid = result.score is not None and result.judge_calls and not result.cached
        # An unknown cost has no series, rather than one of 0.
        if cost or (cost is not None and was_paid):
            counters["cost_usd"][judge,].inc(cost)
        if cost is None:
            counters["unpriced_responses"][judge,].inc()
        if result.score is not None:
            self._histograms["score"][judge,].observe(result.score)
        else:
            cause = _CAUSES.get(result.status, "failed")
            if result.status == Status.UNPARSABLE.value:
                cause = result.cause or cause
            counters["unscored_responses"][judge, cause].inc()
        if result.cached:
            counters["cache_hits"][judge,].inc()

    def count_failure(self, judge: str, cause: str) -> None:
        """Count a response that the judge failed to score in time."""
        self._counters["judge_failures"][judge, cause].inc()

    def count_probe(self, judge: str, outcome: ChatResponse | EndpointError) -> None:
        """Count a probe of the judge."""
        counters = self._counters
        usage = outcome.usage
        label = "failed"
        if isinstance(outcome, ChatResponse):
            label = "answered"
        counters["probes"][judge, label].inc()
        counters["judge_calls"][judge,].inc()
        counters["judge_attempts"][judge,].inc(outcome.attempts)
        counters["prompt_tokens"][judge,].inc(usage.prompt_tokens)
        counters["completion_tokens"][judge,].inc(usage.completion_tokens)
        if usage.cost:
            counters["cost_usd"][judge,].inc(usage.cost)

    def count_unjudged(self, judge: str, cause: str) -> None:
        """Count a failure that was sent without a failed judgment: it is late or never began."""
        self._counters["unjudged_answers"][judge, cause].inc()

    def count_removed_thinking(self, judge: str, count: int) -> None:
        """Count responses that were judged without their thinking."""
        self._counters["thinking_removed"][judge,].inc(count)

    def observe_wait(self, judge: str, seconds: float) -> None:
        """Count the seconds that a call waited before its first request."""
        self._histograms["queue_seconds"][judge,].observe(seconds)

    def count_attempt_failure(self, judge: str, cause: str) -> None:
        """Count a failed request to a judge's endpoint."""
        self._counters["attempt_failures"][judge, cause].inc()

    def count_cohort(self, judge: str, event: CohortEvent) -> None:
        """Count an event of a cohort."""
        if event == "opened":
            self._open_cohorts[judge,].inc()
        elif event == "late":
            self._counters["late_members"][judge,].inc()
        else:
            self._open_cohorts[judge,].dec()
            self._counters["cohorts_closed"][judge, event].inc()

    def count_alarm(self, judge: str, alarm: Alarm) -> None:
        """Count an alarm."""
        self._counters["alarms"][judge, alarm.monitor].inc()

    def set_monitors(
        self, judge: str, values: Mapping[str, float], gold: Mapping[str, int]
    ) -> None:
        """Set the latest numbers of a judge's monitors and its gold judge's outcomes."""
        for name, value in values.items():
            self._monitors[judge, name].set(value)
        for outcome, count in gold.items():
            self._gold[judge, outcome].set(count)

    def count_request(
        self, judge: str, protocol: str, code: int, seconds: float, pending: int
    ) -> None:
        """Count a request and its latency, and set the number of pending judgments."""
        self._counters["requests"][judge, protocol, str(code)].inc()
        self._histograms["request_seconds"][judge, protocol].observe(seconds)
        if self._is_shared:  # another worker may serve the metrics
            self._in_flight.set(pending)

    def exposition(self, pending: int) -> bytes:
        """Return the metrics in Prometheus' text format; `pending` judgments are in flight.

        Raises:
            RequestError: metrics are not available.
        """
        if self._registry is None:
            command = install_command("server")
            raise RequestError(501, "not_installed", f"metrics need prometheus-client: {command}")
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self._in_flight.set(pending)
        if self._is_shared:
            merged = CollectorRegistry()
            MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
            return generate_latest(merged)
        return generate_latest(self._registry)


def open_telemetry() -> Telemetry:
    """Make the metrics of this process."""
    try:
        require("server")
    except MissingExtraError as error:
        logger.warning("/metrics is off: %s", error)
        return Telemetry()
    return Telemetry(is_counted=True)


def forget_worker(pid: int, folder: str) -> None:
    """Remove a dead worker from the gauges; its counts stay.

    Args:
        pid: the worker's process id.
        folder: the folder of the workers' counters.
    """
    try:
        from prometheus_client.multiprocess import mark_process_dead
    except ImportError:  # no metrics
        return
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def log_to_stderr(name: str | None = None) -> None:
    """Log to standard error in JSON lines: the loggers below `name`, or all."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger(name).addHandler(handler)
    logging.getLogger("judgegym").setLevel(logging.INFO)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON line: time, level, logger, message and its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        second = _second(int(record.created))
        milliseconds = int(record.msecs)
        line: dict[str, object] = {
            "time": f"{second}.{milliseconds:03d}Z",
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
