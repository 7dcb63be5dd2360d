"""A server's judgments: pending ones, and finished ones of the last minutes.

Guarantees: identical tasks in flight share one judgment. A judgment outlives the requests that wait
for it, and its scores are kept for repeated requests, even after a response was sent: a trainer
whose connection broke never received it, and nothing is paid for twice. Kept judgments hold no
prompt and no response, and their total size is bounded.

`RecentScores` keeps the scores of single responses, for failed ones of the same group. Trainers
count a failed response in its group's baseline, whether they mask it or not, and the mean of the
other scores moves that baseline least (`FailureAnswers.placeholder`). Members of a group are judged
at about the same time, and a failed one is retried first. The other scores are therefore those that
the same judge, also after a reload, gave in the last seconds to the same group, or to the same
prompt where no group is named. Texts are not kept. Each process has its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.at_once import cancel_all
from judgegym.llm.cost.budget import Budget
from judgegym.llm.http.limits import ON_ADMISSION
from judgegym.server.cohorts import cohort_key
from judgegym.server.judges import MountedJudge

Case: TypeAlias = "tuple[MountedJudge, JudgeTask, Budget | None]"
"""The subject of one judgment: judge and task, and the client's budget, if it has one."""

_MOST_BYTES = 64 << 20
"""Approximate limit of the bytes of kept results; the oldest are dropped first."""
_RESULT_BYTES = 1500
"""Bytes of a result without its explanation."""
_KEPT_S = 300.0
_KeptKey: TypeAlias = "tuple[MountedJudge, str, Budget | None]"
"""A case, with the digest in place of its task."""


@dataclass(eq=False, slots=True)
class PendingJudgment:
    """A judgment that requests wait for.

    Attributes:
        task: makes its results.
        begun_at: when the judge admitted its first call (monotonic clock); `None` while it waits.
        is_taken: a request has received the result with its calls; later requests share it.
        is_late: a request was told that the judgment failed, because it was not ready in time.
    """

    task: asyncio.Future[list[ResponseJudgment]]
    begun_at: float | None = None
    is_taken: bool = False
    is_late: bool = False

    def note_begun(self) -> None:
        """Note that a call was admitted."""
        if self.begun_at is None:
            self.begun_at = time.monotonic()


class PendingJudgments:
    """All pending and kept judgments of a process.

    Attributes:
        in_flight: the judgments in flight or waiting.
    """

    def __init__(
        self,
        judge: Callable[
            [MountedJudge, JudgeTask, Budget | None], Awaitable[list[ResponseJudgment]]
        ],
    ) -> None:
        """Start without judgments; `judge` makes the results of a case."""
        self._judge = judge
        self.in_flight: dict[Case, PendingJudgment] = {}
        self._kept: OrderedDict[_KeptKey, tuple[float, PendingJudgment]] = OrderedDict()
        self._kept_bytes = 0

    def list_tasks(self, judge: MountedJudge) -> list[asyncio.Future[list[ResponseJudgment]]]:
        """Return the judgments of a judge that are in flight or waiting."""
        return [pending.task for case, pending in self.in_flight.items() if case[0] is judge]

    def is_late(self, case: Case) -> bool:
        """Return whether a request was already told that this judgment failed."""
        return case in self.in_flight and self.in_flight[case].is_late

    def has(self, case: Case) -> bool:
        """Return whether a judgment of a case exists already."""
        self._expire()
        return case in self.in_flight or _key(case) in self._kept

    def get_or_start(self, case: Case) -> PendingJudgment:
        """Return the judgment of a case: in flight, kept or new."""
        self._expire()
        if case in self.in_flight:
            return self.in_flight[case]
        _, finished = self._kept.get(_key(case), (0.0, None))
        if finished is not None:
            return finished
        pending: PendingJudgment

        async def judge_case() -> list[ResponseJudgment]:
            begun = ON_ADMISSION.set(
                pending.note_begun
            )  # in the context of this task and its subtasks
            try:
                return await self._judge(*case)
            finally:
                ON_ADMISSION.reset(begun)  # otherwise task and judgment form a reference cycle

        pending = PendingJudgment(asyncio.create_task(judge_case()))
        self.in_flight[case] = pending
        pending.task.add_done_callback(lambda _: self._keep_result(case, pending))
        return pending

    async def aclose(self) -> None:
        """Cancel all judgments in flight."""
        await cancel_all([pending.task for pending in self.in_flight.values()])
        self._kept.clear()

    def _keep_result(self, case: Case, pending: PendingJudgment) -> None:
        """Keep the results, unless one failed: a repeated request then gets a new judgment."""
        self.in_flight.pop(case)
        task = pending.task
        if (
            task.cancelled()
            or task.exception() is not None
            or any(result.is_failed for result in task.result())
        ):
            return
        pending.task = (
            task.get_loop().create_future()
        )  # drops the task's context, which holds the request
        pending.task.set_result(task.result())
        self._kept[_key(case)] = time.monotonic() + _KEPT_S, pending
        self._kept_bytes += _size(pending)
        while self._kept_bytes > _MOST_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, (_, pending) = self._kept.popitem(last=False)
        self._kept_bytes -= _size(pending)

    def _expire(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._forget_oldest()


def _key(case: Case) -> _KeptKey:
    judge, task, owner = case
    return judge, task.key(""), owner


def _size(pending: PendingJudgment) -> int:
    return sum(_RESULT_BYTES + len(result.explanation) for result in pending.task.result())


_MOST_GROUPS = 8192
_MOST_MEMBERS = 64


class RecentScores:
    """The latest scores of a process by group, each with its time."""

    def __init__(self, kept_s: float) -> None:
        """Start without scores; each score is forgotten after `kept_s` seconds."""
        self._kept_s = kept_s
        self._groups: OrderedDict[tuple[MountedJudge, str], deque[tuple[float, float | None]]] = (
            OrderedDict()
        )

    def complete_result(
        self, judge: MountedJudge, task: JudgeTask, result: ResponseJudgment
    ) -> ResponseJudgment:
        """Remember the result of a task's only response; add its group's scores to a failed one."""
        now = time.monotonic()
        key = (judge, cohort_key(judge.name, task))
        if not result.is_failed:
            scores = self._groups.setdefault(key, deque(maxlen=_MOST_MEMBERS))
            scores.append((now, result.score))
            self._groups.move_to_end(key)
            if len(self._groups) > _MOST_GROUPS:
                self._groups.popitem(last=False)
            return result
        if result.others:
            return result
        return replace(result, others=self.list_scores(judge, task))

    def list_scores(self, judge: MountedJudge, task: JudgeTask) -> tuple[float | None, ...]:
        """Return the recent scores of the group of a task's only response."""
        now = time.monotonic()
        key = (judge, cohort_key(judge.name, task))
        scores = self._groups.get(key, ())
        return tuple(score for at, score in scores if now - at <= self._kept_s)
