"""The scoring core, used by all protocols and by functions that judge in process.

Guarantees: a result within the deadline, which is a failure if the judge had that much time without
a response. A judgment gets `NotYetError` instead if it had to wait for the judge's concurrency
limit, if the judge is unreachable, or if the caller has less time. Identical responses of a request
and of requests in flight are judged once, and their calls count once. A judgment that outlives its
request continues, and a repeated request finds it (`pending.py`). Pending judgments are limited. An
empty response costs no call: it is an invalid completion, and the others are judged without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import chain, compress
from operator import not_
from types import TracebackType
from typing import Any

from judgegym.judges.core.tasks import (
    ComparingJudge,
    JudgeTask,
    ResponseJudgment,
    TaskError,
    TaskParts,
    count_with_thinking,
    fail_responses,
    split_task,
)
from judgegym.llm import tracing
from judgegym.llm.at_once import cancel_all, gather_results
from judgegym.llm.cost.budget import CALLER_BUDGET, Budget
from judgegym.llm.errors import UserError
from judgegym.llm.http.exchange import open_session
from judgegym.server.answers import NotYetError, OverloadError
from judgegym.server.cohorts import Cohorts, Gatherer
from judgegym.server.judges import (
    JudgeTable,
    MountedJudge,
    MountedJudges,
    name_prefix,
    trace_judgment,
)
from judgegym.server.monitoring import ServerMonitors
from judgegym.server.operation import Record, Telemetry, watch_health
from judgegym.server.pending import Case, PendingJudgment, PendingJudgments, RecentScores
from judgegym.server.settings import JudgeMount

logger = logging.getLogger(__name__)

_ON_ITS_WAY_S = 1.0
"""Seconds for sending a response before its caller gives up.

They also let a judgment start that then has its whole deadline.
"""
_BETWEEN_MEMBERS_S = 60.0
"""Seconds within which a group's members are expected, so that failed ones get others' scores."""
_TO_JOIN_S = 0.1
"""Seconds for a response to join its cohort, and to find its result there if there is one."""
_UNREACHABLE_CAUSES = ("away", "rejected")
"""Causes of failures if a judge is unreachable or rejects its account."""
_RETRY_AFTER_S = 1
"""Seconds before a retry of a queued judgment; an unreachable judge is retried less often."""
_RETRY_WHEN_AWAY_S = 5


@dataclass(frozen=True, slots=True)
class _Wait:
    """How a request waits for a judge.

    `arrived` and `until` are on the monotonic clock; a patient caller takes a failure as final.
    """

    judge: MountedJudge
    arrived: float
    until: float
    is_patient: bool


class Core:
    """All judges of a process, with one HTTP session. Use as an async context manager.

    Attributes:
        telemetry: counts responses and cohorts.
        judges: the judges; `judges.table` has those of new requests.
        record: records the results, and keeps the latest.
        recent_scores: scores of single responses, for failed ones of their group.
        cohorts: the cohorts of judges that gather single responses.
    """

    def __init__(
        self,
        mounts: Mapping[str, JudgeMount],
        *,
        deadline_s: float,
        max_pending: int,
        telemetry: Telemetry | None = None,
        judge_identity: str = "",
        monitors: ServerMonitors | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Prepare; the session and the caches are opened on entry.

        Args:
            mounts: the judges by name.
            deadline_s: seconds for a judgment, and for a request without its own deadline.
            max_pending: limit of judgments in flight or waiting.
            telemetry: counts responses and cohorts; by default they are not counted.
            judge_identity: name of the judges' endpoint in the cache key; its URL by default.
            monitors: watch the results; opened and closed with this core.
            budget: the total budget; `CALLER_BUDGET` has a request's own.
        """
        self.telemetry = telemetry or Telemetry()
        self._mounts = mounts
        self._deadline_s = deadline_s
        self._max_pending = max_pending
        self._identity = judge_identity
        self._monitors = monitors
        self._stack = AsyncExitStack()
        self.judges = MountedJudges(judge_identity, budget, self.telemetry)
        self.record = Record(self.judges.health, self.telemetry)
        self.recent_scores = RecentScores(_BETWEEN_MEMBERS_S + 2 * deadline_s)
        self._pending = PendingJudgments(self._judge)

    async def __aenter__(self) -> Core:
        """Open the session, the caches and the cohorts.

        Raises:
            SettingsError: a judge's settings are wrong, or the judge cannot gather responses.
        """
        session = self._session = await self._stack.enter_async_context(open_session())
        self._stack.push_async_callback(self.judges.aclose)
        gatherers: dict[str, Gatherer] = {}
        try:
            await self.remount(self._mounts)
            for name, judge in self.judges.table.judges.items():
                plan = judge.settings.cohort_limits(self._deadline_s, name_prefix(name))
                if plan is not None and isinstance(judge.scorer, ComparingJudge):
                    gatherers[name] = Gatherer(judge.scorer, *plan, kind=judge.settings.judge)
            self.cohorts = Cohorts(
                gatherers,
                deadline_s=self._deadline_s,
                record=self.record,
                is_full=lambda: self.is_full,
            )
            self._stack.push_async_callback(self.cohorts.aclose)
            if self._monitors is not None:
                self._stack.push_async_callback(self._monitors.aclose)
                await self._monitors.open(session, self._identity)
        except BaseException:  # any error: close the session, then raise it
            await self._stack.aclose()
            raise
        return self

    async def remount(self, mounts: Mapping[str, JudgeMount]) -> None:
        """Serve new requests with these judges; judges that gather responses must be unchanged.

        Raises:
            SettingsError: a judge cannot be opened; requests keep the previous judges.
        """
        await self.judges.mount(mounts, self._session, self._pending.list_tasks)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel the judgments in flight, and close."""
        await self._pending.aclose()
        await self._stack.aclose()

    @property
    def pending(self) -> int:
        """Number of judgments in flight or waiting, and of responses that wait for their cohort."""
        return len(self._pending.in_flight) + self.cohorts.pending

    @property
    def is_full(self) -> bool:
        """Whether the limit of pending judgments is reached."""
        return self.pending >= self._max_pending

    async def watch(self) -> None:
        """Log when a judge goes down and when it is back; never returns."""
        await watch_health(self.judges.health)

    async def score(
        self,
        mount: str,
        tasks: Sequence[JudgeTask],
        *,
        spent_s: float = 0.0,
        within_s: float | None = None,
        is_patient: bool = False,
        table: JudgeTable | None = None,
    ) -> list[list[ResponseJudgment]]:
        """Score all tasks at the same time.

        Args:
            mount: the judge's name.
            tasks: the tasks to score.
            spent_s: seconds since the request arrived.
            within_s: seconds from the request's arrival until its caller gives up; the deadline by
                default.
            is_patient: whether the caller takes a failure as final and does not retry: then wait
                for an unreachable judge, unless it has been unreachable for longer than the
                deadline.
            table: the table with the judge; by default the current one.

        Returns:
            For each task, a result for each response; a failure for those without one within the
            deadline.

        Raises:
            TaskError: a task lacks a field that its judge needs; no judge was called.
            OverloadError: too many judgments are pending; no judge was called.
            NotYetError: there is no result yet; retry.
        """
        arrived = time.monotonic() - spent_s
        judge = (table or self.judges.table).judges[mount]
        scorer = judge.scorer
        ignored = [name for name in judge.unseen if any(getattr(task, name) for task in tasks)]
        for name in ignored:
            judge.unseen.discard(name)
            logger.warning(
                "%srequests have %s, which the judge %s is not shown",
                name_prefix(mount),
                name,
                judge.settings.judge,
            )
        until = arrived + self._deadline_s + _ON_ITS_WAY_S
        if within_s is not None:
            until = arrived + within_s - min(_ON_ITS_WAY_S, within_s / 10)
        wait = _Wait(judge, arrived, until, is_patient)
        gathers = judge.settings.group_size is not None
        joins = [gathers and len(task.responses) == 1 and scorer.compares(task) for task in tasks]
        members = list(compress(tasks, joins))
        if any(task.all_images for task in members):
            raise TaskError(
                "images: single responses are compared without images; send the responses of a "
                "prompt in one request"
            )
        try:
            self._check_reachable(wait)
        except NotYetError:
            member_results = await self._join_cohorts(mount, members, spent_s)
            if (
                member_results is None
                or len(member_results) < len(tasks)
                or any(result.cause in _UNREACHABLE_CAUSES for result in member_results)
            ):
                raise  # even if its cohort failed at once: the judge may come back
            return [[result] for result in member_results]
        whole = list(compress(tasks, map(not_, joins)))
        for task in whole:
            if task.fault is None:
                scorer.check(task)
        parts = [split_task(scorer, task) for task in whole]
        owner = CALLER_BUDGET.get()
        cases = list[Case]()
        for part in parts:
            cases += [(judge, case, owner) for case in part.cases]
        if self.pending + len(cases) > self._max_pending:
            fresh = {case for case in cases if not self._pending.has(case)}
            if fresh and self.pending + len(fresh) > self._max_pending:
                raise OverloadError
        judgments = [
            [self._pending.get_or_start((judge, case, owner)) for case in part.cases]
            for part in parts
        ]
        joined = iter(
            await gather_results(self.cohorts.join(mount, task, spent_s) for task in members)
        )
        await self._wait(wait, [*chain.from_iterable(judgments)])
        judged = iter(
            [
                self._collect_results(judge, *arguments)
                for arguments in zip(whole, parts, judgments, strict=True)
            ]
        )
        results = [[next(joined)] if is_member else next(judged) for is_member in joins]
        for task, task_results in zip(tasks, results, strict=True):
            if count := count_with_thinking(task, scorer.settings):
                self.telemetry.count_removed_thinking(mount, count)
            if len(task_results) == 1:  # a failed response gets its group's known scores
                task_results[0] = self.recent_scores.complete_result(judge, task, task_results[0])
            if self._monitors is not None:
                self._monitors.watch_task(mount, task, task_results)
        return results

    async def _wait(self, wait: _Wait, judgments: Sequence[PendingJudgment]) -> None:
        """Wait until all judgments are ready, or it is too late for the rest.

        Raises:
            NotYetError: the caller has no more time and must retry, or the judge is unreachable.
        """
        hurried = wait.judge.wakers
        hurry: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not wait.is_patient:
            hurried.add(hurry)
        try:
            while waiting := [pending for pending in judgments if not pending.task.done()]:
                if hurry.done():
                    self._check_reachable(wait)
                    hurry = asyncio.get_running_loop().create_future()
                    hurried.add(hurry)
                left_s = self._seconds_left(wait, waiting)
                if left_s <= 0:
                    wait.judge.health.note_late()
                    break
                settled: asyncio.Future[Any] = waiting[0].task
                if len(waiting) > 1:
                    settled = asyncio.gather(
                        *(pending.task for pending in waiting), return_exceptions=True
                    )
                await asyncio.wait(
                    {settled, hurry}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            hurried.discard(hurry)

    def _seconds_left(self, wait: _Wait, waiting: Sequence[PendingJudgment]) -> float:
        """Return the seconds to wait for judgments; 0 or less if it is too late for all.

        Raises:
            NotYetError: the caller has no more time, but the judgments have.
        """
        now = time.monotonic()
        starts = [pending.begun_at for pending in waiting if pending.begun_at is not None]
        ends = [max(start, wait.arrived) + self._deadline_s for start in starts]
        if len(ends) == len(waiting) and max(ends) <= now:
            return 0.0
        if now >= wait.until:
            if wait.is_patient:
                return 0.0
            if len(ends) < len(waiting):
                raise NotYetError(
                    "queued",
                    "the judge was at its concurrency limit for the time of the request; retry",
                    _RETRY_AFTER_S,
                )
            raise NotYetError(
                "unfinished", "not judged within the time of the request; retry", _RETRY_AFTER_S
            )
        soonest = now + self._deadline_s  # if a judgment starts now
        later_ends = [end for end in ends if end > now]
        return min(wait.until, soonest, *later_ends) - now

    def _check_reachable(self, wait: _Wait) -> None:
        """Check that a judge is reachable, or that the caller waits for it.

        Raises:
            NotYetError: the judge is unreachable.
        """
        client = wait.judge.health.client
        if client.waiting is not None and not (
            wait.is_patient and client.unreachable_for_s < self._deadline_s
        ):
            raise NotYetError("judge_away", client.waiting, _RETRY_WHEN_AWAY_S)

    async def _join_cohorts(
        self, mount: str, tasks: Sequence[JudgeTask], spent_s: float
    ) -> list[ResponseJudgment] | None:
        """Let single responses join their cohorts; return their results if all are ready.

        A response that arrives while the judge is unreachable still belongs to its group: without
        its slot the cohort would be closed short, and scored as a smaller group.
        """
        if not tasks:
            return []
        joining = [asyncio.ensure_future(self.cohorts.join(mount, task, spent_s)) for task in tasks]
        try:
            await asyncio.wait(joining, timeout=_TO_JOIN_S)
        finally:
            ended = await cancel_all(joining)  # a member that leaves keeps its slot
        results = [result for result in ended if isinstance(result, ResponseJudgment)]
        if len(results) == len(tasks):
            return results
        return None

    def _collect_results(
        self,
        judge: MountedJudge,
        task: JudgeTask,
        parts: TaskParts,
        judgments: Sequence[PendingJudgment],
    ) -> list[ResponseJudgment]:
        """Return the results of a task's responses; count those that were not counted yet."""
        results = list[ResponseJudgment]()
        mount = judge.name
        # Decided when a result is returned: the first request that gets it has its calls, later
        # ones share them.
        has_calls = [
            not (judgment.is_taken if judgment.task.done() else judgment.is_late)
            for judgment in judgments
        ]
        seen = set[tuple[int, int]]()
        for response, entry in zip(task.responses, parts.results, strict=True):
            if isinstance(entry, ResponseJudgment):
                self.record.record_result(mount, task.prompt, response, entry)
                results.append(entry)
                continue
            number, index = entry
            pending = judgments[number]
            is_first = has_calls[number] and entry not in seen
            has_result = pending.task.done() and not pending.task.cancelled()
            if has_result:
                result = pending.task.result()[index]
            else:
                result = self.record.record_overdue(
                    mount, judge.health, is_counted=pending.is_late or not is_first
                )
            if not is_first:
                shared = self.record.record_shared(mount, result)
                if has_result:
                    result = shared
            results.append(result)
            seen.add(entry)
        for pending in judgments:
            pending.is_taken |= pending.task.done()
            pending.is_late |= not pending.task.done()
        return results

    async def _judge(
        self, judge: MountedJudge, task: JudgeTask, owner: Budget | None
    ) -> list[ResponseJudgment]:
        started = time.monotonic()
        mount = judge.name
        results = await trace_judgment(
            tracing.active, judge.settings.judge, mount, self._score_or_fail(judge, task)
        )
        seconds = time.monotonic() - started
        self.record.record_judgment(
            *(mount, task.prompt, task.responses, results, seconds, judge.health),
            is_late=self._pending.is_late((judge, task, owner)),
        )
        return results

    async def _score_or_fail(self, judge: MountedJudge, task: JudgeTask) -> list[ResponseJudgment]:
        try:
            return await judge.scorer.score(task)
        except UserError as error:  # an outage, which the judge's client logs, or a wrong setting
            return fail_responses(error, len(task.responses))
        except Exception as error:  # boundary: any judge error fails this request alone
            logger.exception("a judgment failed")
            return fail_responses(error, len(task.responses))
