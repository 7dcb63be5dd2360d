"""Whether a judge answers at all: what `/readyz` says, and what the log says once when it changes.

A judge is down while its client waits for it (which the client logs itself), and after several judgments in a row whose
calls failed or were late. It is up again when the client has found it, after an answer, or, when nobody asks any more,
as soon as its endpoint answers anything over HTTP.

What is told of results and cohorts: to the metrics, to the judge's health, and on the page of the last judgments.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import aiohttp

from judgegym.judges.core.judgment import Status
from judgegym.judges.scorers.items import ResponseScore, shared_score
from judgegym.llm.client import ChatClient

logger = logging.getLogger(__name__)

FAILURES = 3
"""So many failed judgments in a row mean that the judge is down; one may be the fault of its prompt."""
_POLL_S = 0.5
_QUIET_S = 30.0
"""The endpoint is asked whether it is there when no judgment has ended for so long."""
_PROBE_TIMEOUT_S = 5.0


class JudgeHealth:
    """The state of one judge."""

    def __init__(self, client: ChatClient) -> None:
        """Watch the judge behind a client."""
        self._client = client
        self._failures = 0
        self._reason = ""
        self._latest = time.monotonic()
        self._was_away = False

    def note(self, result: ResponseScore) -> None:
        """Take the result of a judgment into account."""
        self._latest = time.monotonic()
        if result.status == Status.JUDGE_FAILED.value:
            self._failures += 1
            self._reason = result.explanation
        else:
            self._failures = 0

    def late(self) -> None:
        """Take into account that a request had to be answered before its judgment."""
        self._latest = time.monotonic()
        self._failures += 1
        self._reason = "no answer within the server's deadline"

    @property
    def is_down(self) -> bool:
        """Whether the judge is away, or has not answered several times in a row."""
        return self._client.waiting is not None or self._failures >= FAILURES

    @property
    def waiting(self) -> str | None:
        """What the client waits for, in one sentence."""
        return self._client.waiting

    @property
    def away_for_s(self) -> float:
        """Seconds for which the judge has refused connections; 0 if it does not."""
        return self._client.away_for_s

    @property
    def trouble(self) -> str | None:
        """Why the judge is down though it is there; `None` if it is not."""
        if self._client.waiting is None and self._failures >= FAILURES:
            return f"{self._failures} judgments in a row without an answer; the last one: {self._reason}"
        return None

    async def look(self, session: aiohttp.ClientSession) -> None:
        """Forget failures once the client has found the judge again, or if its endpoint answers when nobody asks it."""
        if self._client.waiting is not None:
            self._was_away = True
            return
        if self._was_away:
            self._was_away, self._failures = False, 0
        if self._failures < FAILURES or time.monotonic() - self._latest < _QUIET_S:
            return
        self._latest = time.monotonic()
        for endpoint in self._client.settings.endpoints:
            url = endpoint.at("/models")
            try:
                async with session.get(url, timeout=aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S)) as answer:
                    if answer.status < 500:
                        self._failures = 0
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
                continue


async def watch(judges: Mapping[str, JudgeHealth], session: aiohttp.ClientSession) -> None:
    """Log it once when a judge goes down and once when it is back, and look for those that are down; never ends."""
    down: dict[str, float] = {}
    while True:
        for name, health in judges.items():
            trouble = health.trouble
            if trouble is not None and name not in down:
                down[name] = time.monotonic()
                logger.warning("the judge does not answer: %s", trouble, extra={"fields": {"judge": name}})
            elif trouble is None and name in down:
                seconds = round(time.monotonic() - down.pop(name), 1)
                logger.warning("the judge is back", extra={"fields": {"judge": name, "seconds": seconds}})
            await health.look(session)
        await asyncio.sleep(_POLL_S)


REMEMBERED = 100
_SHOWN = 4000
_LATE = "the judge did not answer within the server's deadline"

ResultListener: TypeAlias = Callable[[str, ResponseScore], None]
"""Called with the judge's name and the result of each judged response, and of each that shares the judgment of one."""
CohortEvent: TypeAlias = Literal["opened", "full", "short", "late"]
"""A cohort was opened; it was closed with all members, or without some; a member came after that."""
CohortListener: TypeAlias = Callable[[str, CohortEvent], None]
"""Called with the judge's name and each event of a cohort."""


@dataclass(frozen=True, slots=True)
class RecentJudgment:
    """A finished judgment for the page, with long texts cut."""

    at: float
    mount: str
    prompt: str
    response: str
    result: ResponseScore
    seconds: float


class Record:
    """Tells of the results of all judges of a process.

    Attributes:
        recent: the last judgments.
        cohort: is called with the judge's name and each event of a cohort.
    """

    def __init__(self, health: Mapping[str, JudgeHealth], on_result: ResultListener, on_cohort: CohortListener) -> None:
        """Tell `on_result` of each, and of a judge's answers its health."""
        self._health, self._on_result = health, on_result
        self.cohort = on_cohort
        self.recent: deque[RecentJudgment] = deque(maxlen=REMEMBERED)

    def judged(
        self, mount: str, prompt: str, responses: Sequence[str], results: Sequence[ResponseScore], seconds: float
    ) -> None:
        """A judgment has ended: the results of the responses that were judged together."""
        for response, result in zip(responses, results, strict=True):
            if not result.shared:
                self._health[mount].note(result)
            self.known(mount, prompt, response, result, seconds)

    def known(self, mount: str, prompt: str, response: str, result: ResponseScore, seconds: float = 0.0) -> None:
        """A response has a result, from a judge or without one."""
        self._on_result(mount, result)
        self.recent.append(RecentJudgment(time.time(), mount, _cut(prompt), _cut(response), result, round(seconds, 3)))

    def shared(self, mount: str, result: ResponseScore) -> None:
        """A response has a result that was told of before."""
        self._on_result(mount, shared_score(result))

    def overdue(self, mount: str) -> str:
        """What a caller is told that has to be answered before its judgment."""
        waiting = self._health[mount].waiting
        return _LATE if waiting is None else f"{_LATE}: {waiting}"

    def late(self, mount: str) -> None:
        """A judgment is not there in time."""
        self._health[mount].late()


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters, cut here)"
