"""Diagnostics of groups that were judged together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import Metrics
from judgegym.environments.rollouts.groups import RecordRollout
from judgegym.environments.rollouts.judging import GroupComparison, record_compared
from judgegym.environments.rollouts.scored_group import JudgedGroup
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.judges.core.group import Look, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import Judgment, Status
from tests.command import ROOT
from tests.environments.rollouts_of import group, rollout

_PAGE = (ROOT / "docs" / "environments" / "metrics.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("### Judged together")[2].partition("\n#")[0]
SHARED = ("groups_without_signal_rate", "judge_calls_saved", "judge_error_rate", "reward_length_correlation")
NAMES = sorted({*re.findall(r"^\| `train/(\w+)`", _TABLE, re.MULTILINE), *SHARED})
"""The documented metrics of groups judged together, and those of all groups that are computed in a way of their own."""
ONCE = GroupComparison("listwise", anchored=False, calls=1)


def together(
    *members: tuple[float | None, Sequence[tuple[int, int, float]]],
    texts: str = "",
    how: GroupComparison = ONCE,
) -> JudgedGroup[Any]:
    """A group with the score of each member and the looks at it; `texts` are the answers, a letter each."""
    scores = [score for score, _ in members]
    judgments = tuple(
        Judgment(
            score,
            Status.UNPARSABLE if score is None else Status.OK,
            detail=MemberDetail(tuple(Look(*look) for look in looks), score),
        )
        for score, looks in members
    )
    rollouts = tuple(rollout(text=text) for text in texts or "abcdefgh"[: len(members)])
    return replace(group(scores), rollouts=rollouts, judgments=judgments, together=how)


def flushed(*groups: JudgedGroup[Any], category: str | None = None) -> Metrics:
    metrics = TrainingMetrics(config={}, together=True)
    for each in groups:
        metrics.record_group(each, each.scores, recording(each, category))
    return metrics.flush(max_token_len=-1)


def recording(judged: JudgedGroup[Any], category: str | None) -> RecordRollout:
    """Records a rollout as the pipeline does."""
    how = judged.together
    assert how is not None
    return lambda own, number: record_compared(own, how, judged.judgments[number], category)


def values(metrics: Metrics) -> dict[str, float]:
    return {name.removeprefix("train/"): value for name, value in metrics.values.items()}


def test_calls_and_repetitions_are_of_all_groups() -> None:
    often = replace(ONCE, calls=4, is_again=True)
    found = values(flushed(together((0.1, []), (0.2, [])), together((0.1, []), (0.2, []), how=often)))
    assert (found["group_judge_calls"], found["groups_judged_again_rate"]) == (2.5, 0.5)


def test_reward_goes_with_the_place_if_a_judge_prefers_what_it_sees_first() -> None:
    biased = together((0.9, [(1, 3, 0.9)]), (0.5, [(2, 3, 0.5)]), (0.1, [(3, 3, 0.1)]))
    found = values(flushed(biased))
    assert found["reward_position_correlation"] == pytest.approx(-1)
    assert found["first_position_advantage"] == pytest.approx(0.6)


def test_second_order_removes_the_correlation_and_shows_the_preference() -> None:
    swapped = together(
        (0.5, [(1, 3, 0.9), (3, 3, 0.1)]), (0.6, [(2, 3, 0.6), (2, 3, 0.6)]), (0.7, [(3, 3, 0.4), (1, 3, 1.0)])
    )
    found = values(flushed(swapped))
    assert found["reward_position_correlation"] == pytest.approx(0)
    assert found["first_position_advantage"] == pytest.approx(0.95 - (0.1 + 0.6 + 0.6 + 0.4) / 4)


def test_advantage_of_the_first_place_is_within_groups_whose_sizes_and_levels_differ() -> None:
    """In a small group more answers are first, so that the means over all looks would differ by 0.15 here."""
    small = together((0.8, [(1, 2, 0.8)]), (0.8, [(2, 2, 0.8)]))
    large = together(*((0.4, [(place, 8, 0.4)]) for place in range(1, 9)))
    assert values(flushed(small, large))["first_position_advantage"] == pytest.approx(0)
    fair = together((0.6, [(1, 2, 0.6)]), (0.6, [(2, 2, 0.6)]))
    biased = together((0.6, [(1, 2, 0.6)]), (0.2, [(2, 2, 0.2)]))
    assert values(flushed(fair, biased))["first_position_advantage"] == pytest.approx(0.2)


def test_equal_answers_were_shown_once() -> None:
    looks = [(1, 2, 1.0)]
    found = flushed(together((1.0, looks), (1.0, looks), (0.0, [(2, 2, 0.0)]), texts="aab"))
    assert found.left_out["train/reward_position_correlation"] == "too few looks at answers"
    assert values(found)["first_position_advantage"] == 1.0


def test_agreement_is_that_of_all_pairs_that_were_seen_in_both_orders() -> None:
    first, second = (replace(ONCE, orders=orders) for orders in (OrderAgreement(1, 2), OrderAgreement(6, 6)))
    found = values(flushed(together((0.1, []), (0.2, []), how=first), together((0.1, []), (0.2, []), how=second)))
    assert found["position_agreement_rate"] == 7 / 8


def test_win_rate_is_of_groups_with_an_anchor_alone() -> None:
    anchored = replace(ONCE, anchored=True)
    with_anchor = together((0.9, []), (0.5, []), (0.4, []), how=anchored)
    found = values(flushed(with_anchor, together((1.0, []), (1.0, [])), category="Maths"))
    assert found["winrate"] == found["winrate_maths"] == 0.5
    assert found["score_against_anchor"] == pytest.approx(0.6)
    assert found["mean_reward"] == found["mean_reward_maths"] == pytest.approx((0.9 + 0.5 + 0.4 + 2) / 5)


def test_malformed_completion_loses_and_one_without_a_verdict_does_not_count() -> None:
    judged = together((0.9, []), (None, []), (None, []), how=replace(ONCE, anchored=True))
    malformed: Judgment[MemberDetail] = Judgment(None, Status.INVALID_COMPLETION)
    found = values(flushed(replace(judged, judgments=(*judged.judgments[:2], malformed))))
    assert (found["winrate"], found["mean_reward"]) == (0.5, 0.45)
    assert found["judge_error_rate"] == 1 / 3


def test_group_with_nothing_to_compare_is_one_without_signal_and_no_fault_of_the_judge() -> None:
    alone = together((None, []), (None, []), how=GroupComparison("listwise", anchored=False, is_alone=True))
    malformed: Judgment[MemberDetail] = Judgment(None, Status.INVALID_COMPLETION)
    found = values(flushed(replace(alone, judgments=(alone.judgments[0], malformed))))
    assert (found["groups_without_signal_rate"], found["judge_error_rate"]) == (1.0, 0.0)
    assert "group_judge_calls" not in found


def test_calls_that_equal_completions_saved_are_not_counted_for_a_whole_group() -> None:
    judged = together((0.5, []), (0.5, []))
    same = replace(judged.rollouts[0], completion=Completion("a"))
    found = flushed(replace(judged, rollouts=(same, same)))
    assert "train/judge_calls_saved" not in found.values
    assert values(found)["equal_completions_rate"] == 0.5
    assert TrainingMetrics(config={}).flush(max_token_len=-1).values["train/judge_calls_saved"] == 0


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (together((0.5, [(1, 1, 0.5)])),),
        (together((None, []), (None, [])),),
        (together((0.1, [(1, 2, 0.1)]), (0.2, [(2, 2, 0.2)])),),
        (together((0.1, [(1, 2, 0.1)]), (0.2, [(2, 2, 0.2)])),) * 2,
        (together((0.3, [(1, 2, 0.1)]), (0.3, [(2, 2, 0.2)])),) * 2,
    ],
    ids=["none", "one look", "no verdict", "two looks", "four looks", "equal"],
)
def test_documented_metric_is_there_or_is_left_out_with_a_reason(groups: tuple[JudgedGroup[Any], ...]) -> None:
    found = flushed(*groups)
    assert len(NAMES) > 10
    for name in NAMES:
        full = f"train/{name}"
        assert (full in found.values) is not bool(found.left_out.get(full)), name
