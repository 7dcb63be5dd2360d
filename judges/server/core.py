"""The scoring core, used by all protocols and by the functions that judge in process.

Guarantees: a result within the deadline, which is a failure if the judge has not answered; equal responses of a request
and of requests in flight are judged once, and their calls count once; a limit on pending judgments; a judgment that
outlives its request goes on, so that a repeated request finds its result (or, in the cache, its verdicts); an empty
response costs no call: it is an invalid completion, and the others are judged without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import aiohttp

from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient
from judges.llm.errors import SettingsError
from judges.llm.transport import open_session
from judges.server.errors import OverloadError
from judges.server.items import Item, ResponseScore, failure, shared_score
from judges.server.operation.health import JudgeHealth, watch
from judges.server.scorers.of_mount import scorer_of
from judges.server.scorers.scorer import Parts, Scorer, parts_of
from judges.server.settings import JudgeMount

logger = logging.getLogger(__name__)

__all__ = ["Core", "RecentJudgment"]

REMEMBERED = 100
_SHOWN = 4000
_LATE = "the judge did not answer within the server's deadline"


@dataclass(frozen=True, slots=True)
class RecentJudgment:
    """A finished judgment for the page, with long texts cut."""

    at: float
    mount: str
    prompt: str
    response: str
    result: ResponseScore
    seconds: float


ResultListener = Callable[[str, ResponseScore], None]
"""Called with the judge's name and the result of each judged response, and of each that shares the judgment of one."""

Case: TypeAlias = "tuple[str, Item]"
"""What one judgment is about: the judge's name and the item."""


class Core:
    """All judges of a process, with one HTTP session. Use as an async context manager."""

    def __init__(
        self,
        mounts: Mapping[str, JudgeMount],
        *,
        deadline_s: float,
        max_pending: int,
        on_result: ResultListener = lambda mount, result: None,
        judge_identity: str = "",
    ) -> None:
        """Prepare; the session and the caches are opened on entry.

        Args:
            mounts: the judges by name.
            deadline_s: seconds within which `score` returns.
            max_pending: most judgments in flight or waiting.
            on_result: called for each response.
            judge_identity: name of the judges' endpoint in the cache's key; its URL by default.
        """
        self._settings = mounts
        self._deadline_s = deadline_s
        self._max_pending = max_pending
        self._on_result = on_result
        self._identity = judge_identity
        self._stack = AsyncExitStack()
        self._scorers: dict[str, Scorer] = {}
        self._health: dict[str, JudgeHealth] = {}
        self._in_flight: dict[Case, asyncio.Task[list[ResponseScore]]] = {}
        self.pending = 0
        self.recent: deque[RecentJudgment] = deque(maxlen=REMEMBERED)

    async def __aenter__(self) -> Core:
        """Open the session and the caches.

        Raises:
            SettingsError: a judge's settings are wrong.
        """
        session = self._session = await self._stack.enter_async_context(open_session())
        try:
            for name, mount in self._settings.items():
                self._scorers[name] = self._open(name, mount, session)
        except BaseException:  # any error: close the session, then raise it
            await self._stack.aclose()
            raise
        return self

    def _open(self, name: str, mount: JudgeMount, session: aiohttp.ClientSession) -> Scorer:
        try:
            cache = None
            if mount.judge_cache is not None:
                cache = JudgmentCache(mount.judge_cache)
                self._stack.callback(cache.close)
            client = ChatClient(mount.chat_settings(identity=self._identity, section=""), cache=cache, session=session)
            self._stack.push_async_callback(client.close)
            self._health[name] = JudgeHealth(client)
            return scorer_of(mount, client)
        except SettingsError as error:
            raise SettingsError(f"judge {name!r}: {error}" if name else str(error)) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel the judgments in flight, and close."""
        for task in self._in_flight.values():
            task.cancel()
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        await self._stack.aclose()

    @property
    def full(self) -> bool:
        """Whether the limit of pending judgments is reached."""
        return self.pending >= self._max_pending

    @property
    def down(self) -> list[str]:
        """The names of the judges that do not answer."""
        return [name for name, health in self._health.items() if health.is_down]

    async def watch(self) -> None:
        """Log when a judge goes down and when it is back; never ends."""
        await watch(self._health, self._session)

    async def score(self, mount: str, items: Sequence[Item], *, spent_s: float = 0.0) -> list[list[ResponseScore]]:
        """Score all items at the same time.

        Args:
            mount: the judge's name.
            items: what to score.
            spent_s: seconds of the deadline that have passed.

        Returns:
            For each item, a result for each response; a failure for those without one within the deadline.

        Raises:
            ItemError: an item lacks something that its judge needs; no judge was called.
            OverloadError: too many judgments are pending; no judge was called.
        """
        scorer = self._scorers[mount]
        for item in items:
            if item.fault is None:
                scorer.check(item)
        parts = [parts_of(scorer, item) for item in items]
        self._check_room([(mount, case) for part in parts for case in part.cases])
        asked = [[self._ask((mount, case)) for case in part.cases] for part in parts]
        tasks = [each.task for of_item in asked for each in of_item]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, self._deadline_s - spent_s))
            for of_item in asked if late else ():
                if any(each.task in late for each in of_item):
                    self._health[mount].late()
        return [self._results(mount, *each) for each in zip(items, parts, asked, strict=True)]

    def _check_room(self, cases: Sequence[Case]) -> None:
        """Check that the limit allows the judgments that are not in flight.

        Raises:
            OverloadError: it does not.
        """
        if self.pending + len(cases) > self._max_pending:
            fresh = {case for case in cases if case not in self._in_flight}
            if fresh and self.pending + len(fresh) > self._max_pending:
                raise OverloadError

    def _results(self, mount: str, item: Item, parts: Parts, asked: Sequence[_Asked]) -> list[ResponseScore]:
        """The results of an item's responses; counts those that no judgment of their own has counted."""
        results: list[ResponseScore] = []
        for response, known in zip(item.responses, parts.results, strict=True):
            if isinstance(known, ResponseScore):
                self._remember(mount, item.prompt, response, known, 0.0)
                results.append(known)
                continue
            number, place = known
            results.append(asked[number].result(place, self._health[mount].waiting))
            if place in asked[number].taken:
                self._on_result(mount, shared_score(results[-1]))
            asked[number].taken.add(place)
        return results

    def _remember(self, mount: str, prompt: str, response: str, result: ResponseScore, seconds: float) -> None:
        self._on_result(mount, result)
        self.recent.append(RecentJudgment(time.time(), mount, _cut(prompt), _cut(response), result, round(seconds, 3)))

    def _ask(self, case: Case) -> _Asked:
        """The judgment of a case: the one in flight, or a new one."""
        task = self._in_flight.get(case)
        if task is not None:
            return _Asked(task, taken=set(range(len(case[1].responses))))
        task = self._in_flight[case] = asyncio.create_task(self._judge(*case))
        self.pending += 1
        task.add_done_callback(lambda _: self._ended(case))
        return _Asked(task, taken=set())

    def _ended(self, case: Case) -> None:
        del self._in_flight[case]
        self.pending -= 1

    async def _judge(self, mount: str, item: Item) -> list[ResponseScore]:
        started = time.monotonic()
        try:
            results = await self._scorers[mount].score(item)
        except Exception as error:  # boundary of a request: any error of a judge fails this request alone
            logger.exception("a judgment failed")
            results = [failure(f"{type(error).__name__}: {error}")] * len(item.responses)
        seconds = time.monotonic() - started
        for response, result in zip(item.responses, results, strict=True):
            if not result.shared:
                self._health[mount].note(result)
            self._remember(mount, item.prompt, response, result, seconds)
        return results


@dataclass(frozen=True, slots=True)
class _Asked:
    """A judgment that a request waits for, and for which of its responses the calls count elsewhere."""

    task: asyncio.Task[list[ResponseScore]]
    taken: set[int]

    def result(self, place: int, waiting: str | None) -> ResponseScore:
        """The result of a response; a failure that says what the judgment waits for, if it is late."""
        if not self.task.done() or self.task.cancelled():
            return failure(_LATE if waiting is None else f"{_LATE}: {waiting}")
        result = self.task.result()[place]
        return shared_score(result) if place in self.taken else result


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters, cut here)"
