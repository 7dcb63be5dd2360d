"""The scoring core, used by all protocols and by the functions that judge in process.

Guarantees: a result within the deadline, which is a failure if the judge has not answered; equal items in flight are
judged once; a limit on pending judgments; a judgment that outlives its request goes on, so that a repeated request
finds its result (or, in the cache, its verdicts); an empty response costs no call: it is an invalid completion, and the
others are judged without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType

import aiohttp

from judges.core.judgment import Status
from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient
from judges.llm.errors import SettingsError
from judges.llm.transport import open_session
from judges.server.health import JudgeHealth, watch
from judges.server.items import Item, ResponseScore, failure
from judges.server.scorers import ItemError, Scorer, scorer_of
from judges.server.settings import JudgeMount

logger = logging.getLogger(__name__)

__all__ = ["Core", "ItemError", "OverloadError", "RecentJudgment"]

REMEMBERED = 100
_SHOWN = 4000
_EMPTY = failure("the completion is empty: there is nothing to judge", Status.INVALID_COMPLETION.value)
_LATE = "the judge did not answer within the server's deadline"


class OverloadError(Exception):
    """The limit of pending judgments is reached."""


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
"""Called for each judged response with the judge's name and the result."""


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
            on_result: called for each judged response.
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
        self._in_flight: dict[str, asyncio.Task[list[ResponseScore]]] = {}
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
        parts = [_part(scorer, item) for item in items]
        judged = [part.item for part in parts if part.item is not None]
        keys = [item.key(mount) for item in judged]
        fresh = {key for key in keys if key not in self._in_flight}
        if fresh and self.pending + len(fresh) > self._max_pending:
            raise OverloadError
        for part, item in zip(parts, items, strict=True):
            self._told(mount, item, part)
        tasks = [self._task(key, mount, item) for key, item in zip(keys, judged, strict=True)]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, self._deadline_s - spent_s))
            for _ in late:
                self._health[mount].late()
        waiting = self._health[mount].waiting
        finished = iter([_result(task, item, waiting) for task, item in zip(tasks, judged, strict=True)])
        return [part.together([] if part.item is None else next(finished)) for part in parts]

    def _told(self, mount: str, item: Item, part: _Part) -> None:
        """Count and remember the responses that no judge is asked about."""
        for response, result in zip(item.responses, part.known, strict=True):
            if result is not None:
                self._remember(mount, item.prompt, response, result, 0.0)

    def _remember(self, mount: str, prompt: str, response: str, result: ResponseScore, seconds: float) -> None:
        self._on_result(mount, result)
        self.recent.append(RecentJudgment(time.time(), mount, _cut(prompt), _cut(response), result, round(seconds, 3)))

    def _task(self, key: str, mount: str, item: Item) -> asyncio.Task[list[ResponseScore]]:
        if key not in self._in_flight:
            task = asyncio.create_task(self._judge(mount, item))
            self._in_flight[key] = task
            self.pending += 1
            task.add_done_callback(lambda _: self._ended(key))
        return self._in_flight[key]

    def _ended(self, key: str) -> None:
        del self._in_flight[key]
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
            self._health[mount].note(result)
            self._remember(mount, item.prompt, response, result, seconds)
        return results


@dataclass(frozen=True, slots=True)
class _Part:
    """What is to be judged of an item (`None`: nothing), and the results that are known without a judge."""

    item: Item | None
    known: tuple[ResponseScore | None, ...]

    def together(self, judged: Sequence[ResponseScore]) -> list[ResponseScore]:
        """All results, in the order of the responses."""
        rest = iter(judged)
        return [next(rest) if result is None else result for result in self.known]


def _part(scorer: Scorer, item: Item) -> _Part:
    """The item without its empty responses."""
    if item.fault is not None:
        return _Part(None, (failure(item.fault),) * len(item.responses))
    known = tuple(None if response.strip() else _EMPTY for response in item.responses)
    filled = tuple(place for place, result in enumerate(known) if result is None)
    if len(filled) == len(known):
        return _Part(item, known)
    if not filled:
        return _Part(None, known)
    rest = replace(item, responses=tuple(item.responses[place] for place in filled), places=filled)
    try:
        scorer.check(rest)
    except ItemError as error:
        alone = failure(f"{len(known) - len(filled)} of {len(known)} responses are empty; of the others: {error}")
        return _Part(None, tuple(alone if result is None else result for result in known))
    return _Part(rest, known)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters, cut here)"


def _result(task: asyncio.Task[list[ResponseScore]], item: Item, waiting: str | None) -> list[ResponseScore]:
    """The judgment's results, or failures that say what it waits for."""
    if task.done() and not task.cancelled():
        return task.result()
    return [failure(_LATE if waiting is None else f"{_LATE}: {waiting}")] * len(item.responses)
