"""Reachability of a model's replicas, with one probe for all callers; and the circuit breaker.

A replica is unreachable from the moment that it refuses a connection. A probe then tries to
connect, with backoff, until it succeeds; it sends nothing over the connection. Meanwhile calls go
to the other replicas; if none is reachable, all calls wait for the first one to return, up to a
deadline. After the deadline calls fail at once, until the probe succeeds. If no replica has ever
answered, the URL is probably wrong: such a model has its own deadline, after which calls raise
`EndpointOutage`, which ends a run.

Guarantees: an unreachable replica is logged at once, then repeatedly while a call waits for it, and
when it is back. The pauses of a replica that accepts connections and then refuses them again grow
until it answers a request.

A model's circuit breaker opens after ten consecutive requests that were rejected for the account.
HTTP 401, 402, 403 and 404 are about a key, credit, a right or a model's name: another request would
be rejected the same way. A single rejection may still be about its request, such as a moderated
text. So a rejected call waits: it fails if a later request is answered, or if no other call is in
progress. After the tenth consecutive rejection the breaker opens. All calls then wait, including
the rejected ones, and one after the other is sent as a probe, with growing pauses. A response
closes the breaker, and all calls are sent (again); after the deadline they raise `EndpointOutage`,
which ends a run. An endpoint that has never answered is not probed: its settings are wrong. After
the deadline a process that continues, such as a server, sends one call as a probe after each pause;
the others fail at once.

An account without credit counts as rejected, whatever the status (`judgegym.llm.retries.limits`).
An endpoint that asks for a longer wait than a call may take, such as until its daily limit is
reset, opens the breaker at once, without probes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from judgegym.llm.at_once import Tasks, cancel_all, fail
from judgegym.llm.errors import EndpointError, EndpointOutage, FailureKind
from judgegym.llm.retries.limits import LONG_WAIT_S, UNKNOWN_WAIT
from judgegym.llm.types import ChatSettings, Replica
from judgegym.llm.urls import can_connect

logger = logging.getLogger(__name__)

NEVER_THERE = 2
"""Exit code of a command whose endpoint was never reachable: its URL must be corrected."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_CONNECT_S = 10.0
_SAY_AGAIN_S = 30.0


class Reachability:
    """The replicas of one model, reachable or not.

    Attributes:
        replicas: the replicas.
        is_any_reachable: whether a replica is reachable.
        on_unreachable: called when the last reachable replica is lost.
    """

    def __init__(self, replicas: Sequence[Replica], settings: ChatSettings) -> None:
        """Assume that all replicas are reachable; the settings have the deadlines and names."""
        self.replicas = replicas
        self._settings, self._who = settings, settings.display_name
        self.on_unreachable: Callable[[], None] | None = None
        self._waiters = 0
        self.is_any_reachable = True
        self._probes = Tasks()
        self._reachable = asyncio.Event()
        self._last_failure: EndpointError | None = None

    def pick(self) -> Replica:
        """Return the least busy reachable replica; if all are paused, the next to resume."""
        if len(self.replicas) == 1:
            return self.replicas[0]
        now = time.monotonic()
        return min(
            self.replicas,
            key=lambda replica: (
                not replica.is_reachable,
                max(0.0, replica.paused_until - now),
                replica.in_flight,
            ),
        )

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence; `None` while a replica is reachable."""
        if self.is_any_reachable:
            return None
        if not self._is_starting:
            return f"{self._who} refuses connections, for {self.unreachable_for_s:.0f} s"
        left = max(0.0, self._limit_s - self.unreachable_for_s)
        return (
            f"{self._who} has never answered and refuses connections; {left:.0f} s left "
            f"({self._limit_setting})"
        )

    def note_unreachable(self, replica: Replica, failure: EndpointError) -> None:
        """Note that a replica refused a connection, and start to probe it."""
        self._last_failure = failure
        if replica.unreachable_since is None:
            replica.unreachable_since = time.monotonic()
        if replica.is_reachable:
            replica.is_reachable = False
            self._probes.begin(self._probe(replica, failure.answer))
        was_any_there, self.is_any_reachable = (
            self.is_any_reachable,
            any(candidate.is_reachable for candidate in self.replicas),
        )
        if not self.is_any_reachable:
            self._reachable.clear()
            if was_any_there and self.on_unreachable is not None:
                self.on_unreachable()

    async def wait(self) -> float:
        """Wait until a replica is reachable.

        Returns:
            The seconds waited.

        Raises:
            EndpointError: all replicas were unreachable until the deadline.
            EndpointOutage: no replica has ever answered, and the deadline has passed.
        """
        started = time.monotonic()
        self._waiters += 1
        try:
            while not self.is_any_reachable:
                left = self._limit_s - self.unreachable_for_s
                if left <= 0:
                    raise self._unreachable_error()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._reachable.wait(), left)
        finally:
            self._waiters -= 1
        return time.monotonic() - started

    @property
    def unreachable_for_s(self) -> float:
        """Seconds since the last replica became unreachable; 0 while one is reachable."""
        if self.is_any_reachable:
            return 0.0
        return time.monotonic() - max(
            replica.unreachable_since or float("-inf") for replica in self.replicas
        )

    @property
    def is_given_up(self) -> bool:
        """Whether all replicas were unreachable for the whole deadline."""
        return not self.is_any_reachable and self.unreachable_for_s >= self._limit_s

    async def close(self) -> None:
        """End all probes; the next use of the client starts them again."""
        await cancel_all(list(self._probes))

    @property
    def _is_starting(self) -> bool:
        """Whether no replica has ever answered; such a model has its own deadline."""
        return self._settings.start_deadline_s is not None and not any(
            replica.has_answered for replica in self.replicas
        )

    @property
    def _limit_s(self) -> float:
        start_s = self._settings.start_deadline_s
        if start_s is not None and self._is_starting:
            return start_s
        return self._settings.away_deadline_s

    @property
    def _limit_setting(self) -> str:
        name = "wait_for_endpoints" if self._is_starting else "endpoint_away_deadline"
        return f"--{self._settings.section}{name}"

    def _unreachable_error(self) -> EndpointError | EndpointOutage:
        assert self._last_failure is not None  # all are away
        if self._is_starting:
            return EndpointOutage(
                f"{self._who} has not answered within {self._limit}: {self._last_failure.answer}. "
                f"Is its URL right ({self._settings.url_setting})?",
                NEVER_THERE,
            )
        return EndpointError(
            FailureKind.UNREACHABLE,
            endpoint=self._last_failure.endpoint,
            answer=f"{self._last_failure.answer}; unreachable for {self.unreachable_for_s:.0f} s, "
            f"the limit is {self._limit}",
        )

    async def _probe(self, replica: Replica, why: str) -> None:
        """Try to connect until it succeeds. The pauses grow until the replica answers a request."""
        name = f"{self._settings.title} at {replica.endpoint.redacted_url}"
        never = " (it has never answered: is its URL right?)"
        if replica.has_answered:
            never = ""
        logger.warning(
            "%s refuses connections%s: %s. Calls wait for at most %s",
            name,
            never,
            why,
            self._limit,
        )
        begun = warned_at = time.monotonic()
        while True:
            await asyncio.sleep(
                min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(replica.away_in_a_row, 16))
            )
            replica.away_in_a_row += 1
            if await _accepts_connections(replica):
                logger.warning(
                    "%s accepts connections again, after %.0f s", name, time.monotonic() - begun
                )
                replica.is_reachable = self.is_any_reachable = True
                self._reachable.set()
                return
            if self._waiters and time.monotonic() - warned_at >= _SAY_AGAIN_S:
                warned_at = time.monotonic()
                left = max(0.0, self._limit_s - self.unreachable_for_s)
                logger.warning(
                    "%s still refuses connections, after %.0f s; %.0f s left",
                    name,
                    warned_at - begun,
                    left,
                )

    @property
    def _limit(self) -> str:
        return f"{self._limit_s:g} s ({self._limit_setting})"


async def _accepts_connections(replica: Replica) -> bool:
    """Return whether a connection to a replica, or to its proxy, can be opened.

    A cancellation is never lost. Before Python 3.12 `wait_for` loses one that comes at the moment
    when the connection is refused; the probe of an ending process would then run forever.
    """
    opening = asyncio.create_task(can_connect(replica.proxy or replica.url))
    try:
        await asyncio.wait([opening], timeout=_CONNECT_S)
        return opening.done() and opening.result()
    finally:
        opening.cancel()


ACCOUNT_STATUSES = frozenset({401, 402, 403, 404})
"""HTTP statuses that reject an account rather than a request."""
MOST_IN_A_ROW = 10
"""Number of consecutive rejections that opens the breaker."""

_FIRST_PROBE_PAUSE_S = 1.0
_LONGEST_PROBE_PAUSE_S = 30.0


class CircuitBreaker:
    """The state of one model's endpoint: closed, open with a probe, or given up.

    Attributes:
        is_closed: whether requests may be sent.
        calls: the number of calls in progress; `settle` is called after each.
        on_open: called when the breaker opens.
    """

    def __init__(self, settings: ChatSettings) -> None:
        """Start closed; without `rejected_deadline_s` the breaker never opens."""
        self._who = settings.display_name
        self._deadline_s = settings.rejected_deadline_s
        self._setting = f"--{settings.section}endpoint_rejected_deadline"
        self.is_closed = True
        self.on_open: Callable[[], None] | None = None
        self.calls = 0
        self._in_a_row = 0
        self._row_began = 0.0
        self._has_answered = False
        self._failure: EndpointError | None = None
        self._opened_at = 0.0
        self._wait: str | None = None
        """How long the endpoint asks to wait, as text, if that opened the breaker."""
        self._next_probe_at: float | None = None  # once it has given up
        self._pause_s = _FIRST_PROBE_PAUSE_S
        self._rejected: list[asyncio.Future[bool]] = []
        self._unsent: list[asyncio.Future[bool]] = []
        self._probing: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence; `None` if a call may be sent."""
        if self.is_closed or (
            self._next_probe_at is not None and time.monotonic() >= self._next_probe_at
        ):
            return None
        if self._wait is not None:
            return f"{self._who} {self._wait} ({self._rejection})"
        open_for = time.monotonic() - self._opened_at
        left = ""
        if self._next_probe_at is None:
            left_s = max(0.0, self._deadline_s or 0.0) - open_for
            left = f", {left_s:.0f} s left"
        return f"{self._who} rejects every request ({self._rejection}), for {open_for:.0f} s{left}"

    @property
    def is_given_up(self) -> bool:
        """Whether every request was rejected until the deadline."""
        return self._next_probe_at is not None

    async def wait_ready(self) -> bool:
        """Wait until a call may be sent; return whether it is the probe.

        Raises:
            EndpointOutage: the endpoint has rejected every request for too long.
        """
        if self.is_closed:
            return False
        if self._next_probe_at is None:
            return await self._wait_for_decision(self._unsent)
        if time.monotonic() < self._next_probe_at:
            raise self._outage()
        self._postpone_probe()
        return True

    def note_response(self, admitted: float) -> None:
        """Note a response to a request that was admitted at this time (monotonic clock)."""
        self._has_answered = True
        if not self._in_a_row or admitted < self._row_began:
            return  # it was sent before the requests that were rejected, and says nothing of them
        was_open, self.is_closed = not self.is_closed, True
        self._in_a_row, self._next_probe_at, self._pause_s = 0, None, _FIRST_PROBE_PAUSE_S
        self._wait = None
        if self._probing is not None:
            self._probing.cancel()
        if was_open:
            logger.warning(
                "%s accepts requests again, after %.0f s",
                self._who,
                time.monotonic() - self._opened_at,
            )
        _decide(self._rejected, was_open)
        _decide(self._unsent, False)

    async def handle_rejection(self, failure: EndpointError, admitted: float) -> bool:
        """Note that a request was rejected for the account; wait for the decision.

        Args:
            failure: the rejection.
            admitted: when the request was admitted (monotonic clock).

        Returns:
            Whether to send it again, as a probe if the breaker is open.

        Raises:
            EndpointOutage: the endpoint has rejected every request for too long.
        """
        if self._deadline_s is None:
            return False
        self._row_began = min(self._row_began, admitted) if self._in_a_row else admitted
        self._failure = failure
        if self.is_closed:  # requests that were in flight when the breaker opened did not open it
            self._in_a_row += 1
        if self._next_probe_at is None and self.is_closed and self._in_a_row >= MOST_IN_A_ROW:
            self._open()
        if self._next_probe_at is not None:
            raise self._outage()
        return await self._wait_for_decision(self._rejected)

    def put_off(self, failure: EndpointError, admitted: float) -> None:
        """Note that the endpoint asks for a longer wait than a call may take.

        Args:
            failure: its response, with the wait.
            admitted: when the request was admitted (monotonic clock).

        Raises:
            EndpointOutage: always, unless the breaker never opens.
        """
        if self._deadline_s is None or failure.retry_after is None:
            return
        self._failure, self._row_began = failure, admitted
        self._in_a_row += 1
        duration = _duration(failure.retry_after)
        self._wait = f"asks to wait {duration}"
        if self._probing is not None:
            self._probing.cancel()
        if self.is_closed:
            self.is_closed, self._opened_at = False, time.monotonic()
            if self.on_open is not None:
                self.on_open()
        self._pause_s = min(failure.retry_after, LONG_WAIT_S)
        self._give_up()
        raise self._outage()

    async def close(self) -> None:
        """End the probe."""
        self._is_over = True
        if self._probing is not None:
            await cancel_all([self._probing])

    @property
    def _rejection(self) -> str:
        if self._failure is None:
            return ""
        return f"HTTP {self._failure.status}: {self._failure.answer}"

    async def _wait_for_decision(self, waiting: list[asyncio.Future[bool]]) -> bool:
        """Wait for a decision together with other calls."""
        decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append(decision)
        self.settle()
        try:
            return await decision
        finally:
            with suppress(ValueError):
                waiting.remove(decision)
            self.settle()

    def settle(self) -> None:
        """Fail the rejected calls if no other call in progress can tell more."""
        if self.is_closed and self._rejected and self.calls <= len(self._rejected):
            _decide(self._rejected, False)

    def _open(self) -> None:
        self.is_closed = False
        self._opened_at = time.monotonic()
        if self.on_open is not None:
            self.on_open()
        if not self._has_answered or self._is_over:
            self._give_up()
            return
        logger.warning(
            "%s rejected %d requests in a row: %s. No new requests are sent; one is retried for up "
            "to %g s (%s)",
            *(self._who, self._in_a_row, self._rejection, self._deadline_s, self._setting),
        )
        self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        """After each pause send one of the waiting calls, until the deadline."""
        until = self._opened_at + (self._deadline_s or 0.0)
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(self._pause_s, left))
            self._pause_s = min(2 * self._pause_s, _LONGEST_PROBE_PAUSE_S)
            if time.monotonic() >= until:
                break
            waiting = [
                decision for decision in (*self._rejected, *self._unsent) if not decision.done()
            ]
            if waiting:
                waiting[0].set_result(True)
        self._give_up()

    def _give_up(self) -> None:
        """Fail all waiting calls."""
        self._postpone_probe()
        for decision in (*self._rejected, *self._unsent):
            if not decision.done():
                fail(decision, self._outage())

    def _postpone_probe(self) -> None:
        self._next_probe_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PROBE_PAUSE_S)

    def _outage(self) -> EndpointOutage:
        if self._wait is not None:
            return EndpointOutage(f"{self._who} {self._wait}: {self._rejection}")
        if not self._has_answered:
            return EndpointOutage(
                f"{self._who} rejected the first {self._in_a_row} requests: {self._rejection}"
            )
        limit = f"{self._deadline_s:g} s ({self._setting})"
        return EndpointOutage(
            f"{self._who} has rejected every request for {limit}: {self._rejection}"
        )


def _duration(seconds: float) -> str:
    if seconds >= UNKNOWN_WAIT:
        return "until a limit of a day or a month is reset"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(
        part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part
    )


_THROTTLED_S = 10.0
"""Warn about an endpoint that answers only HTTP 429 for this many seconds."""


class ThrottleMonitor:
    """Detects an endpoint that answers only HTTP 429. Calls wait until their deadlines."""

    def __init__(self, settings: ChatSettings) -> None:
        """Start without responses."""
        self._who = settings.display_name
        self._since: float | None = None
        self._failure: EndpointError | None = None
        self._has_warned = False

    def note(self, failure: EndpointError | None) -> None:
        """Note a response: the failure for HTTP 429, `None` for any other."""
        self._failure = failure
        if failure is None:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif not self._has_warned and (description := self.description) is not None:
            self._has_warned = True
            logger.warning("%s. Calls wait, each until its deadline", description)

    @property
    def description(self) -> str | None:
        """A sentence about the endpoint; `None` unless it answered only HTTP 429 for a while."""
        if (
            self._since is None
            or self._failure is None
            or time.monotonic() - self._since < _THROTTLED_S
        ):
            return None
        lasts = time.monotonic() - self._since
        return f"{self._who} has answered only HTTP 429 for {lasts:.0f} s: {self._failure.answer}"


def _decide(waiting: list[asyncio.Future[bool]], decision: bool) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(decision)
