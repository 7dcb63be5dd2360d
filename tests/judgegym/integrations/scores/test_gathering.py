"""Samples that a trainer gives one by one: they meet, in time or not, and each is worth a finite number."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from judgegym.integrations.scores.groups import GatheringSettings, SampleBatcher, judged_by
from judgegym.integrations.scores.requests import CompletionRow
from judgegym.integrations.scores.results import CompletionReward, TrainerReward
from judgegym.integrations.scores.sources import RewardScorer
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

SCORES = {"good": 1.0, "fair": 0.5, "bad": 0.0, "tenth": 0.1}


class Judge:
    """Scores known words; others have no score. `asked` are the responses of each call."""

    def __init__(self) -> None:
        self.asked: list[list[JSON]] = []

    async def __call__(self, rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        self.asked.append([row.response for row in rows])
        return [_scored(str(row.response)).with_invalid(0.0) for row in rows]


def _scored(text: str) -> CompletionReward:
    if not text:
        return CompletionReward(None, "invalid_completion")
    return CompletionReward(SCORES.get(text), "ok" if text in SCORES else "unparsable", explanation="why")


def row(response: str, **shared: JSON) -> CompletionRow:
    return CompletionRow({"prompt": "Q", **shared}, response)


async def scored(settings: GatheringSettings, *responses: str, group: str = "g") -> tuple[list[TrainerReward], Judge]:
    judge = Judge()
    gathering = SampleBatcher(judge, settings)
    return list(await asyncio.gather(*(gathering.score(group, row(each)) for each in responses))), judge


def settings(size: int = 4, *, together: bool = True, **given: Any) -> GatheringSettings:
    return GatheringSettings(size, together, **given)


async def test_a_whole_group_is_one_call_and_a_missing_score_is_its_mean() -> None:
    worths, judge = await scored(settings(), "good", "fair", "?", "")
    assert [worth.score for worth in worths] == [1.0, 0.5, 0.5, 0.0]
    assert [worth.rewarded.is_failed for worth in worths] == [False, False, True, False]
    assert [worth.rewarded.is_invalid for worth in worths] == [False, False, False, True]
    assert judge.asked == [["good", "fair", "?", ""]]


async def test_samples_by_themselves_are_judged_at_once_and_only_a_failed_one_waits() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(3, together=False))
    assert (await gathering.score("g", row("good"))).score == 1.0
    failed = asyncio.ensure_future(gathering.score("g", row("?")))
    assert (await gathering.score("g", row("bad"))).score == 0.0
    assert (await failed).numbers == {"score": 0.5, "judge_failed": 1.0, "invalid_completion": 0.0}
    assert sorted(map(str, judge.asked)) == ["['?']", "['bad']", "['good']"]


async def test_the_mean_of_equal_scores_gives_no_signal() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(4, together=False))
    worths = await asyncio.gather(*(gathering.score("g", row(each)) for each in ("tenth", "tenth", "tenth", "?")))
    assert {worth.score for worth in worths} == {0.1}


@pytest.mark.parametrize("together", [True, False])
async def test_a_group_without_any_score_has_the_fallback(together: bool) -> None:
    worths, _ = await scored(settings(2, together=together, fallback_score=0.25), "?", "!")
    assert [(worth.score, worth.rewarded.is_failed) for worth in worths] == [(0.25, True)] * 2


async def test_a_short_group_is_closed_and_late_samples_are_compared_with_it() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(3, wait_s=0.05))
    worths = await asyncio.gather(*(gathering.score("g", row(each)) for each in ("good", "bad")))
    assert [worth.score for worth in worths] == [1.0, 0.0]
    assert (await gathering.score("g", row("fair"))).score == 0.5
    assert (await gathering.score("g", row("good"))).score == 1.0  # its twin's
    late = await gathering.score("g", row("?"))
    assert (late.score, late.rewarded.is_failed) == (0.5, True)
    assert judge.asked == [["good", "bad"], ["good", "bad", "fair"], ["good", "bad", "?"]]


async def test_a_sample_whose_group_stays_away_is_flagged_unless_it_has_a_baseline() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(2, wait_s=0.01, fallback_score=0.5))
    alone = await gathering.score("g", row("good"))
    assert (alone.score, alone.rewarded.is_failed, judge.asked) == (0.5, True, [])
    assert (await gathering.score("h", row("good", baseline="B"))).score == 1.0
    empty = await gathering.score("i", row(" "))
    assert (empty.rewarded.is_failed, empty.rewarded.is_invalid) == (False, True)


async def test_a_group_may_have_another_size() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(8))
    worths = await asyncio.gather(*(gathering.score("g", row(each), size=2) for each in ("good", "bad")))
    assert [worth.score for worth in worths] == [1.0, 0.0]


async def test_an_id_that_recurs_is_another_group() -> None:
    judge = Judge()
    gathering = SampleBatcher(judge, settings(2))
    for _ in range(2):
        await asyncio.gather(*(gathering.score("Q", row(each), recurs=True) for each in ("good", "bad")))
    assert judge.asked == [["good", "bad"]] * 2


@pytest.mark.parametrize("together", [True, False])
async def test_a_caller_that_leaves_takes_no_group_with_it(together: bool) -> None:
    gathering = SampleBatcher(Judge(), settings(2, together=together))
    leaving = asyncio.ensure_future(gathering.score("g", row("good")))
    await asyncio.sleep(0.05)
    leaving.cancel()
    assert (await gathering.score("g", row("?" if not together else "bad"))).score == (1.0 if not together else 0.0)


class Refusing:
    """A source that no request can be asked of."""

    async def score(self, request: Any) -> list[CompletionReward]:
        raise SettingsError("no such judge")

    async def close(self) -> None: ...


@pytest.mark.parametrize("together", [True, False])
async def test_a_setting_that_cannot_work_is_raised_for_every_sample(together: bool) -> None:
    told = settings(2, together=together)
    gathering = SampleBatcher(judged_by(RewardScorer(Refusing(), deadline_s=5), told), told)
    ended = await asyncio.gather(*(gathering.score("g", row(each)) for each in "ab"), return_exceptions=True)
    assert [str(each) for each in ended] == ["no such judge"] * 2


async def test_samples_that_differ_in_their_row_are_no_group() -> None:
    gathering = SampleBatcher(judged_by(RewardScorer(Refusing(), deadline_s=5), settings(2)), settings(2))
    rows = [row("good"), CompletionRow({"prompt": "another"}, "bad")]
    worths = await asyncio.gather(*(gathering.score("g", each) for each in rows))
    assert all(worth.rewarded.is_failed and "differ in their prompt" in worth.rewarded.explanation for worth in worths)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": 1}, "needs 2 or more samples"),
        ({"fallback_score": float("nan")}, "fallback_score: expected a finite number"),
        ({"fallback_score": "0"}, "fallback_score: expected a finite number"),
        ({"wait_s": -1.0}, "group_wait_s: expected a number of seconds"),
        ({"wait_s": "x"}, "group_wait_s: expected a number of seconds"),
        ({"wait_s": float("inf")}, "group_wait_s: expected a number of seconds"),
    ],
)
def test_settings_that_cannot_work(given: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings(**given)
