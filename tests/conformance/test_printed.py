"""What a command prints of its result: the same short table for all environments; all metrics if asked."""

from __future__ import annotations

import re

from tests.conformance.lab import Lab

_MOST_LINES = 45
"""Of a terminal; tables of an environment's own come before."""


def summary_of(lab: Lab, out: str) -> list[list[str]]:
    """The lines of the summary, each taken apart at its columns."""
    lines = out.splitlines()
    start = max(
        number
        for number, line in enumerate(lines)
        if line.startswith(f"{lab.subject.env_type.spec.name}: ")
    )
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start:]]


def test_short_table_has_headline_outcomes_categories_cost_and_time(lab: Lab) -> None:
    ended = lab.evaluate().successful()
    metrics, (headline, words) = lab.files().metrics, lab.subject.headline
    lines = summary_of(lab, ended.out)
    assert len(lines) < _MOST_LINES
    assert lines[1][:2] == [words, f"{metrics[headline]:.4f}"]
    assert lines[1][2].endswith(f"eval/{headline}")
    titles = [line[0] for line in lines]
    assert "went wrong" not in titles
    assert {"cost", "time"} <= set(titles)
    samples = [sample for sample in lab.files().samples if sample["category"] is not None]
    for category in {sample["category"] for sample in samples}:
        (found,) = [line for line in lines if line[0] == category]
        shares = [sample["headline"] for sample in samples if sample["category"] == category]
        value = sum(share["total"] for share in shares) / sum(share["weight"] for share in shares)
        assert found[1:] == [f"{value:.4f}", f"n = {len(shares)}"]
    assert not re.search(r"eval/\w*(count|requests|rate_ci)", ended.out), (
        "the metrics are in a file"
    )
    assert f"run is in {lab.files().path}" in ended.out
    assert "metrics.json" in ended.out


OUTCOMES = {
    "arena_hard": ["rows, both orders", "both orders agree"],
    "arena_hard-candidates": ["both orders agree"],
    "mt_bench": ["by turn"],
    "pairwise_judgement": [
        "RewardBench-2 score",
        "readable choices",
        "both orders agree",
        "readable ratings",
    ],
    "aspect_critique-policy": ["passes correctness", "passes conciseness", "vetoed"],
    "aspect_critique-judge": ["agreement with gold"],
    "rubric_absolute-policy": ["mean score", "scores", "strict format"],
    "rubric_absolute-judge": ["scores", "agreement with gold", "strict format"],
    "rubric_checklist-policy": ["HealthBench's score"],
    "rubric_checklist-judge": ["agreement with gold"],
    "self_critique": ["agreement (α)", "scores after critique"],
}
"""The lines that an environment declares, if they have a value; one with a wrong name of a metric is not shown."""


def test_outcomes_are_those_that_the_environment_declares(lab: Lab) -> None:
    titles = [line[0] for line in summary_of(lab, lab.evaluate().out)]
    rest = titles[titles.index("outcomes") + 1 :] if "outcomes" in titles else []
    end = next(
        (
            place
            for place, title in enumerate(rest)
            if title in ("categories", "went wrong", "data", "cost")
        ),
        0,
    )
    expected = OUTCOMES.get(lab.subject.title, [])
    assert [title for title in rest[:end] if "wrong choices" not in title] == expected


def test_all_metrics_are_printed_if_asked(lab: Lab) -> None:
    ended = lab.evaluate("--all_metrics")
    for name in lab.files().report["results"]["all"]:
        assert f" {name} " in ended.out


def test_what_went_wrong_is_said_by_kind(lab: Lab) -> None:
    flags = "--env.min_response_length=100000", "--env.short_answer_retries=0"
    ended = lab.evaluate(*flags)
    found = [line for line in summary_of(lab, ended.out) if line[0] == "short"]
    if (
        "short_response_rate" not in lab.files().metrics
    ):  # of peer evaluation, whose samples hold no completion
        assert not found
        return
    ((_, count, of),) = found
    assert of.startswith(f"of {count} ") and of.endswith("policy")
