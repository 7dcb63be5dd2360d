"""Which replicas of a model are there, and the wait for those that are away: one probe for all callers.

A replica is away from the moment that it refuses a connection. A probe then tries to connect, with backoff, for as long
as it takes; nothing is sent over the connection. While another replica is there, calls go to that; while none is, all
calls wait for the first one that is back, up to a deadline. After the deadline calls fail at once, until the probe
succeeds. A model none of whose replicas has ever answered is wrong rather than away: it has a deadline of its own,
after which calls raise `EndpointOutage`, which ends a run.

Guarantees: a replica that is away is said at once, then now and then while a call waits for it, and when it is back;
one that accepts connections and then refuses them again is not asked without a pause, and is away until it answers a
request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from judgegym.llm.errors import EndpointError, EndpointOutage, FailureKind
from judgegym.llm.replicas import Replica

logger = logging.getLogger(__name__)

NEVER_THERE = 2
"""The exit code of a command whose endpoint was never there: its URL is to be corrected."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_CONNECT_S = 10.0
_SAY_AGAIN_S = 30.0


class Reachability:
    """The replicas of one model that are there or away.

    Attributes:
        is_any_there: whether a replica is there.
        on_lost: called when none is there any more.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        *,
        title: str,
        deadline_s: float,
        setting: str,
        start_s: float | None = None,
        start_setting: str = "",
        url_setting: str = "",
    ) -> None:
        """Take all replicas to be there.

        Args:
            replicas: the replicas.
            title: what they are, such as `the judge`.
            deadline_s: seconds to wait while all are away.
            setting: the setting that changes it, for messages.
            start_s: seconds to wait for the first of them to answer at all; then calls raise `EndpointOutage`. `None`:
                as for others that are away.
            start_setting: the setting that changes that.
            url_setting: the setting that names the replicas.
        """
        self._replicas = replicas
        self._title = title
        self._deadline_s = deadline_s
        self._setting = setting
        self._start_s, self._start_setting, self._url_setting = start_s, start_setting, url_setting
        self.on_lost: Callable[[], None] | None = None
        self._waiters = 0
        self.is_any_there = True
        self._probes: set[asyncio.Task[None]] = set()
        self._back = asyncio.Event()
        self._last_failure: EndpointError | None = None

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence; `None` while a replica is there."""
        if self.is_any_there:
            return None
        away_for = self._away_for()
        if not self._is_starting:
            return f"{self._who} refuses connections, for {away_for:.0f} s"
        left = max(0.0, self._limit_s - away_for)
        return f"{self._who} has never answered and refuses connections; {left:.0f} s left ({self._limit_setting})"

    def lost(self, replica: Replica, failure: EndpointError) -> None:
        """Note that a replica refused a connection, and begin to probe it."""
        self._last_failure = failure
        if replica.away_since is None:
            replica.away_since = time.monotonic()
        if replica.is_there:
            replica.is_there = False
            probe = asyncio.get_running_loop().create_task(self._probe(replica, failure.answer))
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        was_any_there, self.is_any_there = self.is_any_there, any(each.is_there for each in self._replicas)
        if not self.is_any_there:
            self._back.clear()
            if was_any_there and self.on_lost is not None:
                self.on_lost()

    async def wait(self) -> float:
        """Wait until a replica is there.

        Returns:
            The seconds that passed.

        Raises:
            EndpointError: all have been away for as long as the deadline.
            EndpointOutage: none has ever answered, and its deadline has passed.
        """
        started = time.monotonic()
        self._waiters += 1
        try:
            while not self.is_any_there:
                left = self._limit_s - self._away_for()
                if left <= 0:
                    raise self._gone()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._back.wait(), left)
        finally:
            self._waiters -= 1
        return time.monotonic() - started

    @property
    def away_for_s(self) -> float:
        """Seconds since the last of the replicas went away; 0 while one is there."""
        return 0.0 if self.is_any_there else self._away_for()

    async def close(self) -> None:
        """End all probes; a client that is used again probes again."""
        probes = list(self._probes)
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _away_for(self) -> float:
        """Seconds since the last of the replicas went away."""
        return time.monotonic() - max(each.away_since or float("-inf") for each in self._replicas)

    @property
    def _who(self) -> str:
        names = ", ".join(dict.fromkeys(replica.endpoint.shown for replica in self._replicas))
        return f"{self._title} at {names}"

    @property
    def _is_starting(self) -> bool:
        """Whether none has ever answered, which has a deadline of its own."""
        return self._start_s is not None and not any(replica.has_answered for replica in self._replicas)

    @property
    def _limit_s(self) -> float:
        return self._start_s if self._start_s is not None and self._is_starting else self._deadline_s

    @property
    def _limit_setting(self) -> str:
        return self._start_setting if self._is_starting else self._setting

    def _gone(self) -> EndpointError | EndpointOutage:
        assert self._last_failure is not None  # all are away
        if self._is_starting:
            return EndpointOutage(
                f"{self._who} has never answered, for {self._limit}: {self._last_failure.answer}. Is its URL right "
                f"({self._url_setting})?",
                NEVER_THERE,
            )
        return EndpointError(
            FailureKind.AWAY,
            endpoint=self._last_failure.endpoint,
            answer=f"{self._last_failure.answer}; away for {self._away_for():.0f} s, the limit is {self._limit}",
        )

    async def _probe(self, replica: Replica, why: str) -> None:
        """Try to connect until it succeeds. The pauses grow until the replica answers a request."""
        name = f"{self._title} at {replica.endpoint.shown}"
        never = "" if replica.has_answered else " (it has never answered: is its URL right?)"
        logger.warning("%s refuses connections%s: %s. Calls wait for it, at most %s", name, never, why, self._limit)
        begun = said = time.monotonic()
        while True:
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(replica.away_in_a_row, 16)))
            replica.away_in_a_row += 1
            if await _accepts_connections(replica):
                self._found(replica, name, time.monotonic() - begun)
                return
            if self._waiters and time.monotonic() - said >= _SAY_AGAIN_S:
                said = time.monotonic()
                left = max(0.0, self._limit_s - self._away_for())
                logger.warning("%s still refuses connections, for %.0f s; %.0f s left", name, said - begun, left)

    def _found(self, replica: Replica, name: str, seconds: float) -> None:
        logger.warning("%s accepts connections again, after %.0f s", name, seconds)
        replica.is_there = self.is_any_there = True
        self._back.set()

    @property
    def _limit(self) -> str:
        return f"{self._limit_s:g} s ({self._limit_setting})"


async def _accepts_connections(replica: Replica) -> bool:
    """Whether a connection to a replica, or to the proxy before it, can be opened.

    A cancellation always gets through: `wait_for` before Python 3.12 loses one that comes in the moment in which the
    connection is refused, and the probe of a process that is about to end would then go on for ever.
    """
    opening = asyncio.create_task(_open_and_close(replica.proxy or replica.url))
    try:
        await asyncio.wait([opening], timeout=_CONNECT_S)
        return opening.done() and opening.result()
    finally:
        opening.cancel()


async def _open_and_close(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
