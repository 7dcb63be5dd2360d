"""The completions of a row that are judged each by itself: at once, equal ones once, and once more what failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.environments.contract import call_judge
from judgegym.environments.rollouts.judging import judge_each, judge_row_completions
from judgegym.judges.core.judgment import Judgment, Status
from tests.core.environments.rollouts_of import judgment, rollout
from tests.core.environments.words import Word, WordsEnv, opened

OK = judgment(0.5)
AGAIN = {
    Status.JUDGE_FAILED: True,
    Status.UNPARSABLE: True,
    Status.OK: False,
    Status.INVALID_COMPLETION: False,
}
Judge = Callable[[Completion, "Judgment[Any] | None"], Awaitable[Judgment[Any]]]


async def judged_by(judge: Judge, *completions: Completion | str) -> Sequence[Judgment[Any]]:
    async def first(task: Any, shown: Sequence[Completion]) -> Any:
        return await judge(shown[0], None)

    async def again(task: Any, shown: Sequence[Completion], earlier: Judgment[Any]) -> Any:
        return await judge(shown[0], earlier)

    env: Any = SimpleNamespace(
        judge=first, judge_again=again, config=SimpleNamespace(policy_is_judge=True)
    )
    wanted = [
        rollout(text=each).completion if isinstance(each, str) else each for each in completions
    ]
    return await judge_each(env, Word("w"), [(each,) for each in wanted])


@pytest.mark.parametrize(("status", "again"), AGAIN.items())
async def test_judge_again_only_where_the_judge_failed(status: Status, again: bool) -> None:
    earlier = OK if status is Status.OK else judgment(None, status)
    async with opened("unused") as (env, _):
        found = await call_judge(env, Word("level"), [Completion("level")], earlier)
    assert (found is not earlier) is again
    assert found.status is (Status.OK if again else status)


@pytest.mark.parametrize("helps", [True, False])
async def test_equal_completions_share_one_judgment_whose_calls_count_once(helps: bool) -> None:
    failed, judged = judgment(None, Status.JUDGE_FAILED), list[tuple[str, bool]]()

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        if earlier is OK:
            return earlier
        judged.append((asked.answer, earlier is not None))
        return OK if asked.answer == "b" or (earlier and helps) else replace(failed)

    found = await judged_by(judge, *"abaa")
    assert sorted(judged) == [("a", False), ("a", True), ("b", False)], (
        "a shared failure is asked again once"
    )
    assert [each.status for each in found] == [
        Status.OK if helps or text == "b" else failed.status for text in "abaa"
    ]
    assert [len(each.calls) for each in found] == [2, 1, 0, 0]
    assert {
        (each.score, each.label, each.explanation) for each in (found[0], found[2], found[3])
    } == {(found[0].score, "label", "because")}


@pytest.mark.parametrize(
    "other",
    [
        {"thinking": "hm"},
        {"thinking_fault": "no_close_tag"},
        {"finish_reason": "length"},
        {"answer": "a "},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_completions_that_differ_in_anything_a_judge_may_see_are_judged_apart(
    other: dict[str, Any],
) -> None:
    judged: list[Completion] = []

    async def judge(asked: Completion, earlier: Judgment[Any] | None) -> Judgment[Any]:
        if earlier is None:
            judged.append(asked)
        return OK

    same = rollout(text="a").completion
    different = replace(same, **other)
    found = await judged_by(judge, same, different, same)
    assert len(judged) == 2
    assert [len(each.calls) for each in found] == [1, 1, 0]


class BelowZero(WordsEnv):
    """Its rewards are -1 and 0."""

    def reward(self, judgment: Judgment[Any]) -> float:
        return super().reward(judgment) - 1.0


@pytest.mark.parametrize(
    ("flags", "said", "is_told"),
    [([], "wrong", 1), ([], "w", 0), (["--env.invalid_thinking_reward=0"], "wrong", 0)],
)
async def test_a_policy_that_gains_by_malformed_completions_is_told_of_once(
    caplog: pytest.LogCaptureFixture, flags: list[str], said: str, is_told: int
) -> None:
    async with opened("unused", *flags, verb="serve", env_type=BelowZero) as (env, _):
        for _ in range(2):
            _, rewards, _ = await judge_row_completions(
                env, Word("w"), [(Completion(said),), (Completion(""),)]
            )
    assert rewards == (-1.0 if said == "wrong" else 0.0, 0.0)
    assert caplog.text.count("breaking the format") == is_told
