"""What training logs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator, Metrics
from judgegym.environments.rollouts.scored_group import JudgedGroup
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.judges.core.judgment import Status
from judgegym.llm.usage import Usage
from tests.environments.rollouts_of import group, judgment

Observed = list[int]


def metrics_of(*groups: JudgedGroup[Any], max_token_len: int = -1) -> Metrics:
    return collected(groups).flush(max_token_len=max_token_len)


def collected(groups: Sequence[JudgedGroup[Any]], metrics: TrainingMetrics | None = None) -> TrainingMetrics:
    metrics = metrics or TrainingMetrics(config={"thinking_mode": 1.0})
    for each in groups:
        metrics.record_group(each, each.scores, lambda own, number: own.count("observed"))
    return metrics


def with_statuses(*statuses: Status) -> JudgedGroup[Any]:
    """A group whose judgments have these statuses; an invalid completion has the reward 0."""
    rewards = {Status.OK: 1.0, Status.INVALID_COMPLETION: 0.0}
    judged = group([rewards.get(status) for status in statuses])
    return replace(
        judged,
        judgments=tuple(judgment(1.0 if status is Status.OK else None, status) for status in statuses),
    )


def test_the_diagnostics_of_a_window() -> None:
    groups = group([1.0, -1.0, None], [10, 20, 30], cost=0.25), group([0.0, 0.0, 0.0], [10, 10, 10])
    found = metrics_of(*groups).values
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


@pytest.mark.parametrize(("longest", "near"), [(30, 0.5), (31, 0.5), (32, 0.0), (20, 1.0)])
def test_how_many_completions_come_near_the_longest_length(longest: int, near: float) -> None:
    found = metrics_of(group([1.0, 0.0], [20, 30]), max_token_len=longest)
    assert found.values["train/completion_lengths_p95"] == near


@pytest.mark.parametrize(
    ("rewards", "lengths", "expected"),
    [
        ([1.0, 0.0, -1.0], [30, 20, 10], 1.0),
        ([1.0, 0.0, -1.0], [10, 20, 30], -1.0),
        ([1.0, 0.0, -1.0, None], [30, 20, 10, 9000], 1.0),
        ([0.5, 0.5, 0.5], [10, 20, 30], None),
        ([1.0, 0.0, -1.0], [10, 10, 10], None),
        ([1.0, 0.0], [10, 20], None),
    ],
)
def test_whether_the_reward_goes_with_the_length(
    rewards: list[float | None], lengths: list[int], expected: float | None
) -> None:
    found = metrics_of(group(rewards, lengths))
    name = "train/reward_length_correlation"
    if expected is None:
        assert name not in found.values
        assert found.left_out[name]
    else:
        assert found.values[name] == pytest.approx(expected)


def test_what_the_judge_failed_at_is_an_error_and_no_observation() -> None:
    statuses = Status.OK, Status.JUDGE_FAILED, Status.UNPARSABLE, Status.INVALID_COMPLETION
    found = metrics_of(with_statuses(*statuses)).values
    assert found["train/judge_error_rate"] == 0.5
    assert found["train/total_judgments"] == 1
    assert found["train/observed"] == 2, "an answer in the wrong format is an answer"


def test_suspects_in_what_judges_were_shown_are_added_up_in_each_window() -> None:
    judged = group([1.0, -1.0])
    hostile = replace(judged, judgments=tuple(replace(each, suspects=2) for each in judged.judgments))
    metrics = collected([judged, hostile])
    assert metrics.flush(max_token_len=-1).values["train/judge_injection_suspects"] == 4
    assert metrics.flush(max_token_len=-1).values["train/judge_injection_suspects"] == 0


def test_costs_include_requests_that_brought_no_group_and_are_unknown_if_one_is() -> None:
    metrics = collected([group([1.0, -1.0], [10, 20], cost=1.0)])
    metrics.record_unsampled(Usage(10, 5, 0.25))
    assert metrics.flush(max_token_len=-1).values["train/policy_cost_usd"] == 0.25
    metrics.record_unsampled(Usage(10, 5, 0.25))
    metrics.record_unsampled(Usage(10, 5, None))
    flushed = metrics.flush(max_token_len=-1)
    assert "train/policy_cost_usd" not in flushed.values
    assert [*flushed.unknown] == ["train/policy_cost_usd"]


def test_share_of_cached_prompt_tokens_is_that_of_all_calls_in_the_window() -> None:
    metrics = collected([group([1.0, -1.0])])
    metrics.record_unsampled(Usage(30, 5, 0.25, 15))
    metrics.record_unsampled(Usage(10, 5, 0.25))
    found = metrics.flush(max_token_len=-1).values
    assert found["train/policy_cached_prompt_rate"] == 15 / 40
    assert found["train/judge_cached_prompt_rate"] == 0
    assert metrics.flush(max_token_len=-1).values["train/policy_cached_prompt_rate"] == 0, "without a call"


def test_groups_that_were_dropped_are_counted_for_good() -> None:
    metrics = collected([group([1.0, 1.0])])
    metrics.record_dropped("no_signal")
    metrics.record_dropped("policy_failed")
    metrics.flush(max_token_len=-1)
    metrics.record_dropped("no_signal")
    found = metrics.flush(max_token_len=-1).values
    dropped = {name: value for name, value in found.items() if "dropped" in name}
    assert dropped == {"train/groups_dropped_no_signal": 2, "train/groups_dropped_policy_failed": 1}


def test_each_flush_begins_anew_but_for_the_totals() -> None:
    metrics = collected([group([1.0, -1.0], [10, 20], cost=1.0)])
    metrics.record_sent(2)
    assert metrics.flush(max_token_len=-1).values["train/sequences_per_second"] > 0
    collected([group([0.5, 0.0], [40, 50])], metrics)
    found = metrics.flush(max_token_len=-1).values
    assert found["train/total_judgments"] == 4
    assert found["train/groups_judged"] == 1
    assert found["train/reward_mean"] == 0.25
    assert found["train/completion_lengths_min"] == 40
    assert found["train/judge_cost_usd"] == 0
    assert found["train/observed"] == 2
    assert found["train/sequences_per_second"] == 0


def test_a_window_without_a_group() -> None:
    found = TrainingMetrics(config={}).flush(max_token_len=100)
    assert found.values["train/groups_judged"] == 0
    assert "train/reward_mean" not in found.values
    assert all(math.isfinite(value) for value in found.values.values())


REWARDS = st.lists(st.none() | st.floats(-1, 1), min_size=1, max_size=5)


@given(groups=st.lists(REWARDS, max_size=4), longest=st.integers(-1, 100), data=st.data())
def test_every_value_is_a_finite_number(groups: list[list[float | None]], longest: int, data: st.DataObject) -> None:
    sizes = st.integers(0, 50)
    judged = [group(each, data.draw(st.lists(sizes, min_size=len(each), max_size=len(each)))) for each in groups]
    found = metrics_of(*judged, max_token_len=longest)
    assert all(math.isfinite(value) for value in found.values.values())
    assert all(name.startswith(("train/", "config/")) for name in found.values)
    assert not set(found.values) & set(found.left_out)


def test_what_the_environment_observes_is_not_a_number() -> None:
    metrics = TrainingMetrics(config={})

    def record_own(own: MetricAggregator, number: int) -> None:
        own.mean("odd", math.nan)

    judged = group([1.0, 0.0])
    metrics.record_group(judged, judged.scores, record_own)
    found = metrics.flush(max_token_len=-1)
    assert "train/odd" not in found.values
    assert "train/odd" in found.left_out


def test_refusals_are_a_share_of_the_completions_of_a_window() -> None:
    judged = group([1.0, -1.0])
    first = judged.rollouts[0]
    refusal = replace(first, completion=replace(first.completion, finish_reason="content_filter"))
    metrics = collected([judged, replace(judged, rollouts=(refusal, judged.rollouts[1]))])
    assert metrics.flush(max_token_len=-1).values["train/refused_response_rate"] == 0.25
    assert metrics.flush(max_token_len=-1).values["train/refused_response_rate"] == 0.0


def test_equal_completions_and_the_calls_that_they_save_are_counted_since_the_last_flush() -> None:
    judged = group([1.0, 1.0, 0.0, 1.0, 0.0])
    rollouts = tuple(replace(judged.rollouts[0], completion=Completion(text)) for text in "aabab")
    found = replace(judged, rollouts=rollouts, judgments=(judgment(1.0), *(judgment(1.0),) * 4))
    cached = replace(found, judgments=(judgment(1.0, cached=True), *found.judgments[1:]))
    metrics = collected([found, cached])
    values = metrics.flush(max_token_len=-1).values
    assert values["train/equal_completions_rate"] == 0.6
    assert values["train/judge_calls_saved"] == 4, "two of a and one of b; those of the cached answer cost nothing"
    values = metrics.flush(max_token_len=-1).values
    assert values["train/equal_completions_rate"] == values["train/judge_calls_saved"] == 0
