"""The circuit breaker of a model: after ten requests in a row that are rejected for the account, nothing new is sent.

HTTP 401, 402, 403 and 404 speak of a key, of credit, of a right or of a model's name: another request would be rejected
the same way. A single one may still speak of its request alone, such as a moderated text. So a rejected call waits for
what follows: it fails if a later request is answered, or if no other call is in progress. At the tenth in a row the
breaker opens. All calls then wait, the rejected ones too, while one of them after the other is sent as a probe, with
growing pauses. An answer closes the breaker, and all calls are sent (again); after the deadline they raise
`EndpointOutage`, which ends a run. An endpoint that has answered nothing before is not probed: its settings are wrong.
After the deadline a process that goes on, such as a server, sends one call as a probe after each pause; the others fail
at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from judgegym.llm.errors import EndpointError, EndpointOutage

logger = logging.getLogger(__name__)

ACCOUNT_STATUSES = frozenset({401, 402, 403, 404})
"""The HTTP statuses that reject an account, not a request."""
MOST_IN_A_ROW = 10
"""So many rejected requests in a row open the breaker."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class CircuitBreaker:
    """The state of one model's endpoint: closed, open with a probe, or given up.

    Attributes:
        is_closed: requests may be sent.
        on_open: called when the breaker opens.
    """

    def __init__(self, *, title: str, names: str, deadline_s: float | None, setting: str) -> None:
        """Begin closed.

        Args:
            title: what the endpoint is, such as `the judge`.
            names: its URLs, for messages.
            deadline_s: seconds for which an open breaker probes; `None`: it never opens.
            setting: the setting that changes it, for messages.
        """
        self._who = f"{title} at {names}"
        self._deadline_s, self._setting = deadline_s, setting
        self.is_closed = True
        self.on_open: Callable[[], None] | None = None
        self._calls = 0
        self._in_a_row = 0
        self._row_began = 0.0
        self._has_answered = False
        self._failure: EndpointError | None = None
        self._opened_at = 0.0
        self._next_probe_at: float | None = None  # once it has given up
        self._pause_s = _FIRST_PAUSE_S
        self._rejected: list[asyncio.Future[bool]] = []
        self._unsent: deque[asyncio.Future[bool]] = deque()
        self._probing: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence; `None` if a call may be sent."""
        if self.is_closed or (self._next_probe_at is not None and time.monotonic() >= self._next_probe_at):
            return None
        open_for = time.monotonic() - self._opened_at
        left = "" if self._next_probe_at is not None else f", {max(0.0, self._deadline_s or 0.0) - open_for:.0f} s left"
        return f"{self._who} rejects every request ({self._said}), for {open_for:.0f} s{left}"

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call as in progress while the context lasts."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._settle()

    async def ready(self) -> bool:
        """Wait until a call may be sent; return whether it is the probe.

        Raises:
            EndpointOutage: the endpoint has rejected every request for too long.
        """
        if self.is_closed:
            return False
        if self._next_probe_at is None:
            return await self._decided(self._unsent)
        if time.monotonic() < self._next_probe_at:
            raise self._outage()
        self._put_off_probe()
        return True

    def answered(self, admitted: float) -> None:
        """Note an answer to a request that was admitted then (monotonic clock)."""
        self._has_answered = True
        if not self._in_a_row or admitted < self._row_began:
            return  # it was sent before the requests that were rejected, and says nothing of them
        was_open, self.is_closed = not self.is_closed, True
        self._in_a_row, self._next_probe_at, self._pause_s = 0, None, _FIRST_PAUSE_S
        if self._probing is not None:
            self._probing.cancel()
        if was_open:
            seconds = time.monotonic() - self._opened_at
            logger.warning("%s accepts requests again, after %.0f s", self._who, seconds)
        _decide(self._rejected, was_open)
        _decide(self._unsent, False)

    async def rejected(self, failure: EndpointError, admitted: float) -> bool:
        """Note that a request was rejected for the account; wait for what follows.

        Args:
            failure: the rejection.
            admitted: when the request was admitted (monotonic clock).

        Returns:
            Whether to send it again, which is then a probe while the breaker is open.

        Raises:
            EndpointOutage: the endpoint has rejected every request for too long.
        """
        if self._deadline_s is None:
            return False
        self._row_began = min(self._row_began, admitted) if self._in_a_row else admitted
        self._in_a_row += 1
        self._failure = failure
        if self._next_probe_at is None and self.is_closed and self._in_a_row >= MOST_IN_A_ROW:
            self._open()
        if self._next_probe_at is not None:
            raise self._outage()
        return await self._decided(self._rejected)

    async def close(self) -> None:
        """End the probe."""
        self._is_over = True
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    @property
    def _said(self) -> str:
        return "" if self._failure is None else f"HTTP {self._failure.status}: {self._failure.answer}"

    async def _decided(self, waiting: list[asyncio.Future[bool]] | deque[asyncio.Future[bool]]) -> bool:
        """Wait among others for a decision."""
        decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append(decision)
        self._settle()
        try:
            return await decision
        finally:
            with suppress(ValueError):
                waiting.remove(decision)
            self._settle()

    def _settle(self) -> None:
        """Let rejected calls fail where no other call is in progress that could say more."""
        if self.is_closed and self._rejected and self._calls <= len(self._rejected):
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
            "%s rejected %d requests in a row: %s. Nothing new is sent; one request is tried again, for %g s (%s)",
            *(self._who, self._in_a_row, self._said, self._deadline_s, self._setting),
        )
        self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        """Send one of the calls that wait after each pause, until the deadline."""
        until = self._opened_at + (self._deadline_s or 0.0)
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(self._pause_s, left))
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            if time.monotonic() >= until:
                break
            waiting = [each for each in (*self._rejected, *self._unsent) if not each.done()]
            if waiting:
                waiting[0].set_result(True)
        self._give_up()

    def _give_up(self) -> None:
        """Let all calls fail that wait."""
        self._put_off_probe()
        for decision in (*self._rejected, *self._unsent):
            if not decision.done():
                decision.set_exception(self._outage())
                decision.exception()  # mark as retrieved: its caller may be cancelled now

    def _put_off_probe(self) -> None:
        self._next_probe_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _outage(self) -> EndpointOutage:
        if not self._has_answered:
            return EndpointOutage(f"{self._who} rejected the first {self._in_a_row} requests: {self._said}")
        limit = f"{self._deadline_s:g} s ({self._setting})"
        return EndpointOutage(f"{self._who} has rejected every request for {limit}: {self._said}")


def _decide(waiting: list[asyncio.Future[bool]] | deque[asyncio.Future[bool]], decision: bool) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(decision)
