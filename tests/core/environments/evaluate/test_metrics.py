"""The headline by category."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import HeadlineTerm, MetricAggregator, Metrics
from judgegym.engine.records import Sample, SampleRun
from judgegym.engine.terminal.summary import cost_lines
from judgegym.environments.evaluate.metrics import (
    CategoryTotals,
    SharedMetrics,
    describe_failures,
    find_excess_failures,
)
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.usage import Usage
from tests.core.engine.samples_of import sample


def outcomes_of(samples: list[Sample[Any]]) -> Outcomes:
    errors = [each.error for each in samples if not each.finished]
    return Outcomes(Counter(each.status for each in samples), errors[-1] if errors else None)


def observed(samples: list[Sample[Any]], *, thinking_mode: bool = False) -> Metrics:
    metrics, shared = MetricAggregator("eval"), SharedMetrics(thinking_mode=thinking_mode)
    for each in samples:
        shared.add(each)
    shared.record(metrics, outcomes_of(samples))
    return metrics.result()


def values(samples: list[Sample[Any]], *, thinking_mode: bool = False) -> dict[str, float]:
    found = observed(samples, thinking_mode=thinking_mode).values
    return {name.removeprefix("eval/"): value for name, value in found.items()}


STATUSES = [
    "ok",
    "ok",
    "ok",
    "invalid_completion",
    "judge_failed",
    "unparsable",
    "unparsable",
    "policy_failed",
]


def test_each_way_to_fail_is_counted_and_the_denominator_is_every_row() -> None:
    found = values([sample(f"row-{n}", status) for n, status in enumerate(STATUSES)])
    expected = {
        "total_samples": 4, "selected_rows": 8, "judge_failed_count": 1, "unparsable_count": 2,
        "policy_failed_count": 1, "judge_error_rate": 3 / 8, "policy_error_rate": 1 / 8,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_without_rows_there_are_no_error_rates_and_that_is_said() -> None:
    left_out = observed([]).left_out
    assert left_out.keys() == {"eval/judge_error_rate", "eval/policy_error_rate"}
    assert all("no rows" in reason for reason in left_out.values())


def test_what_the_policy_wrote_is_counted_where_it_wrote_something() -> None:
    completions = [
        Completion("0123456789", thinking="hm", finish_reason="stop"),
        Completion("", thinking_fault="no_open_tag", finish_reason="length", short=True),
        Completion("01", finish_reason="length"),
        Completion("0123", finish_reason="refusal"),
        Completion("0123", finish_reason="content_filter"),
    ]
    samples = [sample(f"row-{n}", completions=(each,)) for n, each in enumerate(completions)]
    samples.append(sample("row-5", "policy_failed"))
    found = values(samples, thinking_mode=True)
    assert found["short_response_rate"] == pytest.approx(1 / 5)
    assert (
        found["truncated_response_rate"] == found["refused_response_rate"] == pytest.approx(2 / 5)
    )
    assert found["empty_response_rate"] == pytest.approx(1 / 5)
    assert found["response_length_chars"] == 4
    assert found["thinking_valid_rate"] == pytest.approx(4 / 5)
    assert found["thinking_length_chars"] == pytest.approx(2 / 5)
    of_the_mode = {"thinking_valid_rate", "thinking_length_chars"}
    assert of_the_mode.isdisjoint(values(samples)), "only in thinking mode"


def test_every_completion_of_a_row_with_several_conversations_counts() -> None:
    both = sample(completions=(Completion("0123"), Completion("01", short=True)))
    assert values([both])["response_length_chars"] == 3
    assert values([both])["short_response_rate"] == 0.5


def test_calls_usage_and_latency() -> None:
    paid = CallRun(2.0, 3, False, Usage(100, 20, 0.5, 80))
    cached = CallRun(0.0, 0, True)
    failed = CallRun(attempts=4)
    runs = [
        SampleRun(
            1.0, (paid,), {"game_1": paid, "game_2": CallRun(4.0, 1, False, Usage(10, 2, 0.25, 6))}
        ),
        SampleRun(1.0, (), {"game_1": cached, "game_2": failed}),
    ]
    found = values([sample(f"row-{n}", run=run) for n, run in enumerate(runs)])
    assert {name: value for name, value in found.items() if name.startswith("judge_") and "rate" not in name} == {
        "judge_failed_count": 0, "judge_injection_suspects": 0, "judge_calls": 4,
        "judge_requests": 8, "judge_cached_calls": 1,
        "judge_prompt_tokens": 110, "judge_cached_prompt_tokens": 86,
        "judge_completion_tokens": 22, "judge_cost_usd": 0.75,
        "judge_latency_mean_s": 3.0, "judge_latency_p95_s": pytest.approx(3.9),
    }  # fmt: skip
    assert (found["policy_calls"], found["policy_requests"], found["policy_cost_usd"]) == (
        1,
        3,
        0.5,
    )


def test_cost_is_unknown_if_that_of_one_call_is() -> None:
    known, unknown = (
        CallRun(1.0, 1, False, Usage(10, 2, 0.25)),
        CallRun(1.0, 1, False, Usage(10, 2, None)),
    )
    metrics = observed([sample(run=SampleRun(1.0, (known,), {"game_1": known, "game_2": unknown}))])
    assert metrics.values["eval/policy_cost_usd"] == 0.25
    assert "eval/judge_cost_usd" not in metrics.values
    assert [*metrics.unknown] == ["eval/judge_cost_usd"]


@pytest.mark.parametrize(
    ("calls", "cached", "requests", "said"),
    [
        (40, 0, 130, "40 calls in 130 requests"),
        (40, 0, 40, "40 calls"),
        (40, 10, 30, "40 calls (10 cached)"),
    ],
)
def test_requests_are_named_where_they_are_not_the_calls(
    calls: int, cached: int, requests: int, said: str
) -> None:
    values = {
        "policy_calls": calls,
        "policy_cached_calls": cached,
        "policy_requests": requests,
        "policy_cost_usd": 1.0,
    }
    (line,) = cost_lines(
        Metrics({f"eval/{name}": value for name, value in values.items()}, {}), "eval"
    )
    assert line.remark == said


def test_notices() -> None:
    samples = [sample(f"row-{n}", status) for n, status in enumerate(STATUSES)]
    (notice,) = describe_failures(outcomes_of(samples), Path("runs/x"))
    assert notice.startswith("4 of 8 rows ")
    assert "(1 judge_failed, 2 unparsable, 1 policy_failed)" in notice
    assert "left out" in notice and "wrong" not in notice
    assert "runs/x/failures.jsonl" in notice
    assert notice.endswith("last error: row-7: no answer")
    assert describe_failures(outcomes_of(samples[:4]), Path("runs/x")) == []


def test_notice_where_the_policy_is_the_judge_says_which_rows_count_as_wrong() -> None:
    samples = [sample(f"row-{n}", status) for n, status in enumerate(STATUSES)]
    (all_wrong,) = describe_failures(
        outcomes_of(samples[-1:]), Path("runs/x"), policy_is_judge=True
    )
    assert all_wrong.startswith("1 of 1 rows ") and "(1 policy_failed)" in all_wrong
    assert "count as wrong" in all_wrong and "left out" not in all_wrong
    (some_wrong,) = describe_failures(outcomes_of(samples), Path("runs/x"), policy_is_judge=True)
    assert re.search(r"1 of them .*wrong, the others .*left out", some_wrong)


@pytest.mark.parametrize(
    ("statuses", "highest", "words"),
    [
        (["ok"] * 20, 0.0, None),
        (["ok"] * 19 + ["unparsable"], 0.05, None),
        (
            ["ok"] * 18 + ["unparsable"] * 2,
            0.05,
            r"10\.0 % .*no judgment; env\.max_judge_error_rate .*5\.0 %",
        ),
        (["ok"] * 18 + ["judge_failed", "unparsable"], 0.09, r"10\.0 % .*no judgment"),
        (["ok"] * 18 + ["policy_failed"] * 2, 0.05, r"10\.0 % .*of the policy"),
        (["ok"] + ["judge_failed"] * 9, 1.0, None),
        (["judge_failed"] * 3, 1.0, "no row .*: row-2 failed"),
        (["policy_failed"], 1.0, "no row .*: row-0: no answer"),
        (["invalid_completion"] * 3, 0.0, None),
    ],
)
def test_when_failures_are_too_many(statuses: list[str], highest: float, words: str | None) -> None:
    samples = [sample(f"row-{n}", status) for n, status in enumerate(statuses)]
    problem = find_excess_failures(observed(samples), outcomes_of(samples), highest)
    if words is None:
        assert problem is None
    else:
        assert problem is not None
        assert re.match(words, problem)


def row(category: str | None, total: float | None, weight: float = 1.0) -> Sample[object]:
    share = None if total is None else HeadlineTerm(total, weight)
    return Sample[object]("uid", category, "a question", headline=share)


def test_value_of_a_category_is_that_of_its_rows_that_count() -> None:
    found = CategoryTotals()
    for each in (
        row("math", 1.0),
        row("math", 3.0, 4.0),
        row("math", None),
        row(None, 1.0),
        row("art", 0.0),
    ):
        found.add(each)
    shown, others = found.largest(12)
    assert {name: (each.value, each.rows) for name, each in shown.items()} == {
        "math": (4 / 5, 2),
        "art": (0.0, 1),
    }
    assert others is None


def test_categories_beyond_the_largest_are_one() -> None:
    found = CategoryTotals()
    for number in range(20):
        for _ in range(number + 1):
            found.add(row(f"category {number}", number % 2))
    shown, others = found.largest(3)
    assert list(shown) == ["category 19", "category 18", "category 17"]
    assert len(found) == 20
    assert others is not None and others.rows == sum(range(1, 18))
    assert others.value == pytest.approx(
        sum(number + 1 for number in range(1, 17, 2)) / others.rows
    )
