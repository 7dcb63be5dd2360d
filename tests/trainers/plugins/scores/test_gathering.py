"""Samples that a trainer gives one by one: they meet, in time or not, and each is worth a finite number."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym_trainers.scores.groups import SampleBatcher
from judgegym_trainers.scores.requests import CompletionRow
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.scores.sources import RewardScorer

SCORES = {"good": 1.0, "fair": 0.5, "bad": 0.0, "tenth": 0.1}


class Judge:
    """Scores known words; others have no score. `asked` are the responses of each call."""

    def __init__(self) -> None:
        self.asked: list[list[object]] = []

    async def __call__(
        self, groups: Sequence[Sequence[CompletionRow]]
    ) -> list[list[CompletionReward]]:
        self.asked += [[row.response for row in rows] for rows in groups]
        return [[_scored(str(row.response)) for row in rows] for rows in groups]


def _scored(text: str) -> CompletionReward:
    if not text:
        return CompletionReward(0.0, "invalid_completion")
    return CompletionReward(
        SCORES.get(text), "ok" if text in SCORES else "unparsable", explanation="why"
    )


def row(response: str, **shared: JSON) -> CompletionRow:
    return CompletionRow({"prompt": "Q", **shared}, response)


def made(size: int = 4, *, together: bool = True, **given: Any) -> tuple[SampleBatcher, Judge]:
    judge = Judge()
    return SampleBatcher(judge, size=size, together=together, **given), judge


async def scored(batcher: SampleBatcher, *responses: str, **given: Any) -> list[CompletionReward]:
    return list(
        await asyncio.gather(*(batcher.score("g", row(each), **given) for each in responses))
    )


async def test_a_whole_group_is_one_call_and_a_missing_score_is_its_mean() -> None:
    batcher, judge = made()
    results = await scored(batcher, "good", "fair", "?", "")
    assert [result.score for result in results] == [1.0, 0.5, 0.5, 0.0]
    assert [result.is_failed for result in results] == [False, False, True, False]
    assert [result.is_invalid for result in results] == [False, False, False, True]
    assert judge.asked == [["good", "fair", "?", ""]]


async def test_samples_by_themselves_are_judged_at_once_and_only_a_failed_one_waits() -> None:
    batcher, judge = made(3, together=False)
    assert (await batcher.score("g", row("good"))).score == 1.0
    failed = asyncio.ensure_future(batcher.score("g", row("?")))
    assert (await batcher.score("g", row("bad"))).score == 0.0
    assert (await failed).numbers == {"score": 0.5, "judge_failed": 1.0, "invalid_completion": 0.0}
    assert sorted(map(str, judge.asked)) == ["['?']", "['bad']", "['good']"]


async def test_the_mean_of_equal_scores_gives_no_signal() -> None:
    batcher, _ = made(together=False)
    assert {result.score for result in await scored(batcher, "tenth", "tenth", "tenth", "?")} == {
        0.1
    }


@pytest.mark.parametrize("together", [True, False])
async def test_a_group_without_any_score_has_the_fallback(together: bool) -> None:
    batcher, _ = made(2, together=together, fallback_score=0.25)
    assert [(each.score, each.is_failed) for each in await scored(batcher, "?", "!")] == [
        (0.25, True)
    ] * 2


async def test_a_short_group_is_closed_and_late_samples_are_compared_with_it() -> None:
    batcher, judge = made(3, wait_s=0.05)
    assert [result.score for result in await scored(batcher, "good", "bad")] == [1.0, 0.0]
    assert (await batcher.score("g", row("fair"))).score == 0.5
    assert (await batcher.score("g", row("good"))).score == 1.0  # its twin's
    late = await batcher.score("g", row("?"))
    assert (late.score, late.is_failed) == (0.5, True)
    assert judge.asked == [["good", "bad"], ["good", "bad", "fair"], ["good", "bad", "?"]]


async def test_a_sample_whose_group_stays_away_is_flagged_unless_it_has_a_baseline() -> None:
    batcher, judge = made(2, wait_s=0.01, fallback_score=0.5)
    alone = await batcher.score("g", row("good"))
    assert (alone.score, alone.is_failed, judge.asked) == (0.5, True, [])
    assert (await batcher.score("h", row("good", baseline="B"))).score == 1.0
    empty = await batcher.score("i", row(" "))
    assert (empty.is_failed, empty.is_invalid) == (False, True)


async def test_a_group_may_have_another_size_and_its_id_may_recur() -> None:
    batcher, judge = made(8)
    for _ in range(2):
        results = await scored(batcher, "good", "bad", size=2, recurs=True)
        assert [result.score for result in results] == [1.0, 0.0]
    assert judge.asked == [["good", "bad"]] * 2


@pytest.mark.parametrize("together", [True, False])
async def test_a_caller_that_leaves_takes_no_group_with_it(together: bool) -> None:
    batcher, _ = made(2, together=together)
    leaving = asyncio.ensure_future(batcher.score("g", row("good")))
    await asyncio.sleep(0.05)
    leaving.cancel()
    assert (await batcher.score("g", row("?" if not together else "bad"))).score == (
        1.0 if not together else 0.0
    )


class Refusing:
    """A source that no request can be asked of."""

    async def score(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        raise SettingsError("no such judge")

    async def close(self) -> None: ...


@pytest.mark.parametrize("together", [True, False])
async def test_a_setting_that_cannot_work_is_raised_for_every_sample(together: bool) -> None:
    batcher = SampleBatcher(RewardScorer(Refusing(), deadline_s=5).score, size=2, together=together)
    ended = await asyncio.gather(
        *(batcher.score("g", row(each)) for each in "ab"), return_exceptions=True
    )
    assert [str(each) for each in ended] == ["no such judge"] * 2
