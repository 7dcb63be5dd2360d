"""A server's judges with their clients, and their replacement while requests are in flight.

Guarantees: a request is judged by the judges that were mounted when it arrived. A replaced judge is
closed when no such request and no judgment of its own is left. If a new judge cannot be opened,
nothing changes. Judges with unchanged settings stay open, with their limits and what they know of
their endpoints.

The span of a judgment is a child of the first request that asks for it, and may end after it; its
calls are its children. Source: OpenTelemetry, semantic conventions for evaluations of generative
AI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp

from judgegym.judges.config.batches import open_client
from judgegym.judges.core.tasks import ResponseJudgment, TaskJudge
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import TASK_FIELDS
from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError
from judgegym.llm.tracing import Attributes, SpanTracer
from judgegym.server.operation import JudgeHealth, Telemetry
from judgegym.server.settings import JudgeMount


@dataclass(eq=False, slots=True)
class MountedJudge:
    """An open judge of the server.

    Attributes:
        name: its name; empty for the one at the root.
        settings: its settings.
        health: health of its endpoint.
        stack: closes its client and its cache.
        scorer: judges tasks.
        unseen: task fields that the judge is not shown and no request has had yet.
        wakers: futures that wake the requests that do not wait for an unreachable judge.
    """

    name: str
    settings: JudgeMount
    health: JudgeHealth
    stack: AsyncExitStack
    scorer: TaskJudge
    unseen: set[str]
    wakers: set[asyncio.Future[None]] = field(default_factory=set)

    def note_unreachable(self) -> None:
        """Note that the judge is unreachable, and wake the requests that may not wait for it."""
        self.health.note_unreachable()
        while self.wakers:
            self.wakers.pop().set_result(None)


@dataclass(eq=False, slots=True)
class JudgeTable:
    """The judges by name, from one reload to the next; it counts the requests that use it."""

    judges: Mapping[str, MountedJudge] = field(default_factory=dict)
    users: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def in_use(self) -> Iterator[JudgeTable]:
        """Keep the judges open while the context lasts."""
        self.users += 1
        try:
            yield self
        finally:
            self.users -= 1
            if not self.users:
                self._idle.set()

    async def wait_unused(self) -> None:
        """Wait until no request uses the table; new requests must find another one."""
        while self.users:
            self._idle.clear()
            await self._idle.wait()


class MountedJudges:
    """Opens, replaces and closes the judges of a process.

    Attributes:
        table: the judges of new requests.
        health: the health of all open judges.
    """

    def __init__(self, identity: str, budget: Budget | None, telemetry: Telemetry) -> None:
        """Prepare.

        Args:
            identity: name of the judges' endpoint in the cache key; its URL by default.
            budget: the total budget.
            telemetry: counts events of calls.
        """
        self._identity = identity
        self._budget = budget
        self._telemetry = telemetry
        self.table = JudgeTable()
        self.health: dict[str, JudgeHealth] = {}
        self._open: list[MountedJudge] = []
        self._retiring: asyncio.Task[None] | None = None

    async def mount(
        self,
        mounts: Mapping[str, JudgeMount],
        session: aiohttp.ClientSession,
        judging: Callable[[MountedJudge], Sequence[asyncio.Future[Any]]],
    ) -> None:
        """Serve new requests with these judges.

        Args:
            mounts: their settings by name.
            session: sends their requests.
            judging: returns a judge's judgments in flight.

        Raises:
            SettingsError: a judge cannot be opened; requests keep the previous judges.
        """
        old = self.table
        mounted = dict[str, MountedJudge]()
        try:
            for name, mount in mounts.items():
                judge = old.judges.get(name)
                if judge is None or judge.settings != mount:
                    judge = await self._open_judge(name, mount, session)
                mounted[name] = judge
        except BaseException:  # re-raised; nothing has changed
            for judge in mounted.values():
                if judge not in old.judges.values():
                    await judge.stack.aclose()
            raise
        self.table = JudgeTable(mounted)
        self._open += [judge for judge in mounted.values() if judge not in self._open]
        self.health.update({name: judge.health for name, judge in mounted.items()})
        retired = [judge for judge in old.judges.values() if judge not in mounted.values()]
        self._retiring = asyncio.create_task(self._retire(old, retired, judging, self._retiring))

    async def _open_judge(
        self, name: str, mount: JudgeMount, session: aiohttp.ClientSession
    ) -> MountedJudge:
        async with AsyncExitStack() as stack:  # closes everything if the judge cannot be opened
            try:
                client = await open_client(
                    stack, mount, identity=self._identity, session=session, budget=self._budget
                )
                client.meter.on_queued = partial(self._telemetry.observe_wait, name)
                client.meter.on_attempt_failed = partial(
                    self._telemetry.count_attempt_failure, name
                )
                scorer = open_judge(mount, client)
            except SettingsError as error:
                raise SettingsError(name_prefix(name) + str(error)) from error
            unseen = {*TASK_FIELDS} - mount.shown_fields
            health = JudgeHealth(client, name, self._telemetry, asks_endpoint=mount.asks_endpoint)
            stack.push_async_callback(health.aclose)
            judge = MountedJudge(name, mount, health, stack.pop_all(), scorer, unseen)
        client.subscribe_outage(judge.note_unreachable)
        return judge

    async def _retire(
        self,
        old: JudgeTable,
        retired: Sequence[MountedJudge],
        judging: Callable[[MountedJudge], Sequence[asyncio.Future[Any]]],
        before: asyncio.Task[None] | None,
    ) -> None:
        """Close replaced judges when nothing needs them; tables are given up in their order."""
        if before is not None:
            await asyncio.wait([before])
        await old.wait_unused()
        for judge in retired:
            if tasks := judging(judge):
                await asyncio.wait(tasks)
            if self.health.get(judge.name) is judge.health:
                del self.health[judge.name]
            self._open.remove(judge)
            await judge.stack.aclose()

    async def aclose(self) -> None:
        """Close all open judges."""
        if self._retiring is not None:
            self._retiring.cancel()
            await asyncio.wait([self._retiring])
        for judge in self._open:
            await judge.stack.aclose()


def name_prefix(name: str) -> str:
    """Return the prefix of messages about a judge's settings."""
    if name:
        return f"judge {name!r}: "
    return ""


_LONGEST_LABEL = 64


async def trace_judgment(
    tracing: SpanTracer | None, judge: str, mount: str, judging: Awaitable[list[ResponseJudgment]]
) -> list[ResponseJudgment]:
    """Judge within a span, if tracing is on.

    Args:
        tracing: makes the spans.
        judge: the kind of the judge.
        mount: the judge's name at this server.
        judging: makes the judgments.
    """
    if tracing is None:
        return await judging
    with tracing.span(
        f"judgment {judge}", {"gen_ai.evaluation.name": judge, "judgegym.judge": mount}
    ) as span:
        results = await judging
        span.attributes |= _result_attributes(results, has_texts=tracing.has_texts)
        span.error = next((result.status for result in results if result.is_failed), None)
        return results


def _result_attributes(results: Sequence[ResponseJudgment], *, has_texts: bool) -> Attributes:
    """Return the attributes of results: one score with its label, or the scores of several."""
    first = results[0]
    attributes: Attributes = {}
    if len(results) > 1:
        attributes["judgegym.scores"] = tuple(
            result.score for result in results if result.score is not None
        )
    elif first.score is not None:
        attributes["gen_ai.evaluation.score.value"] = first.score
        if first.label is not None:
            attributes["gen_ai.evaluation.score.label"] = first.label[:_LONGEST_LABEL]
    if has_texts and first.explanation:
        attributes["gen_ai.evaluation.explanation"] = first.explanation
    return attributes
