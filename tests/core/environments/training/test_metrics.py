"""What training logs, also of groups that were judged together."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import Metrics
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.judging import GroupComparison
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.judges.core.group import Look, MemberDetail
from judgegym.judges.core.judgment import Judgment, ScoreParts, Status
from judgegym.llm.usage import Usage
from tests.command import ROOT
from tests.core.environments.rollouts_of import group, judgment, recorder, rollout
from tests.core.environments.words import Word


def metrics_of(*groups: JudgedGroup, max_token_len: int = -1) -> Metrics:
    return collected(groups).flush(max_token_len=max_token_len)


def collected(
    groups: Sequence[JudgedGroup], metrics: TrainingMetrics | None = None
) -> TrainingMetrics:
    metrics = metrics or recorder()
    for each in groups:
        metrics.record_group(Word("w"), each)
    return metrics


def with_statuses(*statuses: Status) -> JudgedGroup:
    """A group whose judgments have these statuses; an invalid completion has the reward 0."""
    rewards = {Status.OK: 1.0, Status.INVALID_COMPLETION: 0.0}
    judged = group([rewards.get(status) for status in statuses])
    return replace(
        judged,
        judgments=tuple(
            judgment(1.0 if status is Status.OK else None, status) for status in statuses
        ),
    )


def test_the_diagnostics_of_a_window() -> None:
    groups = group([1.0, -1.0, None], [10, 20, 30], cost=0.25), group([0.0, 0.0, 0.0], [10, 10, 10])
    metrics = metrics_of(*groups)
    found = metrics.values
    expected = {
        "config/thinking_mode": 1,
        "train/groups_judged": 2,
        "train/observed": 5,
        "train/total_judgments": 5,
        "train/judge_error_rate": 1 / 6,
        "train/groups_without_signal_rate": 0.5,
        "train/judge_cost_usd": 0.75,
        "train/judge_latency_mean_s": 0.5,
        "train/judge_latency_p95_s": 0.5,
        "train/reward_mean": 0,
        "train/reward_std": math.sqrt(2 / 5),
        "train/completion_lengths": 15,
        "train/completion_lengths_min": 10,
        "train/completion_lengths_max": 30,
        "train/sequences_per_second": 0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert "train/completion_lengths_p95" not in found, "there is no longest length to be near to"
    assert not [name for name in (*found, *metrics.left_out) if "_ci_" in name], (
        "training has no intervals"
    )


@pytest.mark.parametrize(("longest", "near"), [(30, 0.5), (31, 0.5), (32, 0.0), (20, 1.0)])
def test_how_many_completions_come_near_the_longest_length(longest: int, near: float) -> None:
    found = metrics_of(group([1.0, 0.0], [20, 30]), max_token_len=longest)
    assert found.values["train/completion_lengths_p95"] == near


LENGTHS = "train/reward_length_correlation"


@pytest.mark.parametrize(
    ("rewards", "lengths", "expected"),
    [([1.0, 0.0, -1.0], [10, 20, 30], -1.0), ([1.0, 0.0, -1.0, None], [30, 20, 10, 9000], 1.0)],
)
def test_whether_the_reward_goes_with_the_length(
    rewards: list[float | None], lengths: list[int], expected: float
) -> None:
    assert metrics_of(group(rewards, lengths)).values[LENGTHS] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rewards", "lengths"),
    [([0.5] * 3, [10, 20, 30]), ([1.0, 0.0, -1.0], [10] * 3), ([1.0, 0.0], [10, 20])],
)
def test_reward_and_length_have_no_correlation_where_one_is_equal_or_there_are_two(
    rewards: list[float | None], lengths: list[int]
) -> None:
    found = metrics_of(group(rewards, lengths))
    assert LENGTHS not in found.values and found.left_out[LENGTHS]


def test_share_of_each_part_in_the_differences_within_groups() -> None:
    def of_parts(*parts: dict[str, float]) -> JudgedGroup:
        made = group([sum(each.values()) for each in parts])
        details = [
            replace(judged, detail=ScoreParts({}, each))
            for judged, each in zip(made.judgments, parts, strict=True)
        ]
        return replace(made, judgments=tuple(details))

    first = of_parts(
        {"style": 0.5, "length": 0.0}, {"style": 0.5, "length": -0.3}, {"style": 0.2, "length": 0.0}
    )
    second = of_parts({"style": 0.9, "length": -1.0}, {"style": 0.1, "length": -1.0})
    found = metrics_of(first, second, group([1.0, 0.0])).values
    shares = {name: found[f"train/part_{name}_share"] for name in ("style", "length")}
    # Around the groups' means: rewards 0.2, -0.1, -0.1 and 0.4, -0.4; style 0.1, 0.1, -0.2 and 0.4,
    # -0.4.
    assert shares == pytest.approx({"style": 0.35 / 0.38, "length": 0.03 / 0.38})
    assert sum(shares.values()) == pytest.approx(1.0)
    assert "train/part_style_share" in metrics_of(of_parts({"style": 0.5}, {"style": 0.5})).left_out


def test_what_the_judge_failed_at_is_an_error_and_no_observation() -> None:
    statuses = Status.OK, Status.JUDGE_FAILED, Status.UNPARSABLE, Status.INVALID_COMPLETION
    found = metrics_of(with_statuses(*statuses)).values
    assert found["train/judge_error_rate"] == 0.5
    assert found["train/total_judgments"] == 1
    assert found["train/observed"] == 2, "an answer in the wrong format is an answer"


def test_costs_include_requests_that_brought_no_group_and_are_unknown_if_one_is() -> None:
    metrics = collected([group([1.0, -1.0], [10, 20], cost=1.0)])
    metrics.record_unsampled(Usage(10, 5, 0.25))
    assert metrics.flush(max_token_len=-1).values["train/policy_cost_usd"] == 0.25
    metrics.record_unsampled(Usage(10, 5, 0.25))
    metrics.record_unsampled(Usage(10, 5, None))
    flushed = metrics.flush(max_token_len=-1)
    assert "train/policy_cost_usd" not in flushed.values
    assert [*flushed.unknown] == ["train/policy_cost_usd"]


def test_groups_that_were_dropped_are_counted_for_good() -> None:
    metrics = collected([group([1.0, 1.0])])
    metrics.total_dropped["no_signal"] += 1
    metrics.total_dropped["policy_failed"] += 1
    metrics.flush(max_token_len=-1)
    metrics.total_dropped["no_signal"] += 1
    found = metrics.flush(max_token_len=-1).values
    dropped = {name: value for name, value in found.items() if "dropped" in name}
    assert dropped == {"train/groups_dropped_no_signal": 2, "train/groups_dropped_policy_failed": 1}


def test_each_flush_begins_anew_but_for_the_totals() -> None:
    metrics = collected([group([1.0, -1.0], [10, 20], cost=1.0)])
    metrics.record_sent(2)
    metrics.record_unsampled(Usage(40, 5, 0.25, 15))
    found = metrics.flush(max_token_len=-1).values
    assert found["train/sequences_per_second"] > 0
    assert (found["train/policy_cached_prompt_rate"], found["train/judge_cached_prompt_rate"]) == (
        15 / 40,
        0,
    )
    collected([group([0.5, 0.0], [40, 50])], metrics)
    found = metrics.flush(max_token_len=-1).values
    expected = {
        "total_judgments": 4,
        "groups_judged": 1,
        "reward_mean": 0.25,
        "completion_lengths_min": 40,
    }
    expected |= {
        "judge_cost_usd": 0,
        "observed": 2,
        "sequences_per_second": 0,
        "policy_cached_prompt_rate": 0,
    }
    assert {name: found[f"train/{name}"] for name in expected} == expected


def test_equal_completions_and_the_calls_that_they_save_are_counted_since_the_last_flush() -> None:
    judged = group([1.0, 1.0, 0.0, 1.0, 0.0])
    rollouts = tuple(replace(judged.rollouts[0], completion=Completion(text)) for text in "aabab")
    found = replace(judged, rollouts=rollouts, judgments=(judgment(1.0), *(judgment(1.0),) * 4))
    cached = replace(found, judgments=(judgment(1.0, cached=True), *found.judgments[1:]))
    metrics = collected([found, cached])
    values = metrics.flush(max_token_len=-1).values
    assert values["train/equal_completions_rate"] == 0.6
    assert values["train/judge_calls_saved"] == 4, (
        "two of a and one of b; those of the cached answer cost nothing"
    )
    values = metrics.flush(max_token_len=-1).values
    assert values["train/equal_completions_rate"] == values["train/judge_calls_saved"] == 0


_PAGE = (ROOT / "docs" / "environments" / "metrics.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("### Judged together")[2].partition("\n#")[0]
SHARED = (
    "groups_without_signal_rate",
    "judge_calls_saved",
    "judge_error_rate",
    "reward_length_correlation",
)
_FIRST_CELLS = " ".join(re.findall(r"^\| ([^|]+) \|", _TABLE, re.MULTILINE))
NAMES = sorted({*re.findall(r"`train/(\w+)`", _FIRST_CELLS), *SHARED})
"""The documented metrics of groups judged together, and those of all groups that are computed in a way of their own."""
ONCE = GroupComparison("listwise", anchored=False, calls=1)


def together(
    *members: tuple[float | None, Sequence[tuple[int, int, float]]],
    texts: str = "",
    how: GroupComparison = ONCE,
) -> JudgedGroup:
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
    return replace(group(scores), rollouts=rollouts, judgments=judgments, comparison=how)


def flushed(*groups: JudgedGroup, category: str | None = None) -> Metrics:
    metrics = recorder(together=True)
    for each in groups:
        metrics.record_group(Word("w", category), each)
    return metrics.flush(max_token_len=-1)


def values(metrics: Metrics) -> dict[str, float]:
    return {name.removeprefix("train/"): value for name, value in metrics.values.items()}


def test_reward_goes_with_the_place_if_a_judge_prefers_what_it_sees_first() -> None:
    biased = together((0.9, [(1, 3, 0.9)]), (0.5, [(2, 3, 0.5)]), (0.1, [(3, 3, 0.1)]))
    found = values(flushed(biased))
    assert found["reward_position_correlation"] == pytest.approx(-1)
    assert found["first_position_advantage"] == pytest.approx(0.6)


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


def test_win_rate_is_of_groups_with_an_anchor_alone() -> None:
    anchored = replace(ONCE, anchored=True)
    with_anchor = together((0.9, []), (0.5, []), (0.4, []), how=anchored)
    found = values(flushed(with_anchor, together((1.0, []), (1.0, [])), category="Maths"))
    assert found["winrate"] == found["winrate_maths"] == 0.5
    assert found["score_against_anchor"] == pytest.approx(0.6)
    assert (
        found["mean_reward"]
        == found["mean_reward_maths"]
        == pytest.approx((0.9 + 0.5 + 0.4 + 2) / 5)
    )


def test_malformed_completion_loses_and_one_without_a_verdict_does_not_count() -> None:
    judged = together((0.9, []), (None, []), (None, []), how=replace(ONCE, anchored=True))
    malformed: Judgment[MemberDetail] = Judgment(None, Status.INVALID_COMPLETION)
    found = values(flushed(replace(judged, judgments=(*judged.judgments[:2], malformed))))
    assert (found["winrate"], found["mean_reward"]) == (0.5, 0.45)
    assert found["judge_error_rate"] == 1 / 3


def test_group_with_nothing_to_compare_is_one_without_signal_and_no_fault_of_the_judge() -> None:
    alone = together(
        (None, []), (None, []), how=GroupComparison("listwise", anchored=False, is_alone=True)
    )
    malformed: Judgment[MemberDetail] = Judgment(None, Status.INVALID_COMPLETION)
    found = values(flushed(replace(alone, judgments=(alone.judgments[0], malformed))))
    assert (found["groups_without_signal_rate"], found["judge_error_rate"]) == (1.0, 0.0)
    assert "group_judge_calls" not in found


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (together((None, []), (None, [])),),
        (together((0.1, [(1, 2, 0.1)]), (0.2, [(2, 2, 0.2)])),) * 2,
        (together((0.3, [(1, 2, 0.1)]), (0.3, [(2, 2, 0.2)])),) * 2,
    ],
    ids=["none", "no verdict", "four looks", "equal"],
)
def test_documented_metric_is_there_or_is_left_out_with_a_reason(
    groups: tuple[JudgedGroup, ...],
) -> None:
    found = flushed(*groups)
    assert len(NAMES) > 10
    for name in NAMES:
        full = f"train/{name}"
        assert (full in found.values) is not bool(found.left_out.get(full)), name
