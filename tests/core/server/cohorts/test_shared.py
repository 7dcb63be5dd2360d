"""Cohorts that another process keeps: its deadline, its refusals, its death."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.server.answers import OverloadError
from judgegym.server.cohorts.shared import OwnerLostError, SharedCohorts

TASK = JudgeTask("Why?", ("Therefore.",), group="1", member="2")
SCORE = ResponseJudgment(0.5, "ok")
DEADLINE_S = 30.0


class Owner:
    """Another process, each of whose answers is scripted; the last one again and again."""

    def __init__(self, *answers: Callable[[], Awaitable[ResponseJudgment]]) -> None:
        self._answers = list(answers)
        self.members: list[tuple[str, JudgeTask, float]] = []
        self.left = 0
        self.has_member = asyncio.Event()

    async def join(self, mount: str, task: JudgeTask, spent_s: float) -> ResponseJudgment:
        self.members.append((mount, task, spent_s))
        self.has_member.set()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        try:
            return await answer()
        except asyncio.CancelledError:
            self.left += 1
            raise


async def scored() -> ResponseJudgment:
    return SCORE


async def never() -> ResponseJudgment:
    await asyncio.Event().wait()
    raise AssertionError


def raising(error: Exception) -> Callable[[], Awaitable[ResponseJudgment]]:
    async def raised() -> ResponseJudgment:
        raise error

    return raised


def cohorts(owner: Owner, deadline_s: float = DEADLINE_S) -> SharedCohorts:
    return SharedCohorts(owner, deadline_s=deadline_s)


async def test_member_reaches_the_owner_with_the_time_that_has_passed() -> None:
    owner = Owner(scored)
    assert await cohorts(owner).join("m", TASK, 2.0) == SCORE
    ((mount, task, spent_s),) = owner.members
    assert (mount, task) == ("m", TASK)
    assert 2.0 <= spent_s < DEADLINE_S


async def test_caller_that_leaves_has_left_the_owner_too() -> None:
    owner = Owner(never)
    waiting = asyncio.create_task(cohorts(owner).join("m", TASK, 0.0))
    await owner.has_member.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert owner.left == 1


async def test_owner_that_does_not_answer_in_time_is_a_flagged_failure() -> None:
    owner = Owner(never)
    result = await cohorts(owner, 10.2).join("m", TASK, 10.0)
    assert (result.score, result.status, owner.left) == (None, "judge_failed", 1)
    assert "deadline" in result.explanation


@pytest.mark.parametrize("error", [OverloadError(), ValueError("a fault")])
async def test_refusal_and_fault_of_the_owner_are_those_of_the_caller(error: Exception) -> None:
    with pytest.raises(type(error)):
        await cohorts(Owner(raising(error))).join("m", TASK, 0.0)


async def test_owner_that_has_not_started_is_waited_for(pauses: list[float]) -> None:
    absent = raising(OwnerLostError(taken=False))
    owner = Owner(*[absent] * 6, scored)
    assert await cohorts(owner).join("m", TASK, 0.0) == SCORE
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.4, 0.4]


async def test_owner_that_never_starts_is_a_flagged_failure() -> None:
    result = await cohorts(Owner(raising(OwnerLostError(taken=False))), 0.2).join("m", TASK, 0.0)
    assert (result.score, result.status) == (None, "judge_failed")


async def test_members_of_an_owner_that_dies_wait_at_its_successor(pauses: list[float]) -> None:
    lost = raising(OwnerLostError(taken=True))
    owner = Owner(lost, lost, scored)
    assert await cohorts(owner).join("m", TASK, 1.0) == SCORE
    assert [task for _, task, _ in owner.members] == [TASK] * 3
    assert all(spent_s >= 1.0 for _, _, spent_s in owner.members)


async def test_member_whose_owners_die_again_and_again_is_given_up(pauses: list[float]) -> None:
    owner = Owner(raising(OwnerLostError(taken=True)))
    result = await cohorts(owner).join("m", TASK, 0.0)
    assert (result.score, result.status, len(owner.members)) == (None, "judge_failed", 3)
    assert "died" in result.explanation
