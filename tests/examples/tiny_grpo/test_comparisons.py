"""Comparisons: what differs between the two trainings of a pair, their command lines and their tables."""

from __future__ import annotations

import importlib
import shlex
from dataclasses import fields

import pytest

from environments.base import JudgedEnv
from examples.tiny_grpo.compare import table
from examples.tiny_grpo.comparisons import COMPARISONS, Comparison
from examples.tiny_grpo.curve import Curve, SeedRun, Step
from examples.tiny_grpo.judge import OneLineParser, add_fault_flags, words_of

ONE_EACH = {
    "failures": "environment",
    "random_failures": "environment",
    "position": "environment",
    "thinking": "serve",
}


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_the_two_trainings_of_a_pair_differ_in_the_rule_alone(comparison: Comparison) -> None:
    names = {field.name for field in fields(comparison.rule)} - {"name", "title"}
    differing = {name for name in names if getattr(comparison.rule, name) != getattr(comparison.without, name)}
    assert differing == {ONE_EACH[comparison.name]}
    assert comparison.rule.rows.exists()
    assert ":" not in comparison.rule.environment  # the product's own


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_a_careless_environment_is_where_the_comparison_says(comparison: Comparison) -> None:
    module, _, name = comparison.without.environment.partition(":")
    if name:
        assert issubclass(getattr(importlib.import_module(module), name), JudgedEnv)


def test_faults_of_the_command_line_come_after_those_of_the_comparison() -> None:
    parser = OneLineParser("p", "")
    add_fault_flags(parser, "judge_")
    words = words_of(parser.parse_args(shlex.split("--judge_failures 0.3 --judge_noise 0")), "judge_")
    assert words == ("--failures=0.3", "--noise=0.0")
    assert COMPARISONS["failures"].judged_with(words).without.judge[-2:] == words


def test_a_table_has_the_mean_over_the_seeds_of_the_last_steps() -> None:
    def run(seed: int, last: float) -> SeedRun:
        steps = [
            Step(n, 0.5, share, 1.0, 20.0, 1.0, 0.0, 0.1, 0.0, 0.0, 8.0, 0.0)
            for n, share in enumerate([0.0] * 10 + [last] * 10, 1)
        ]
        return SeedRun(seed, tuple(steps), 1.0, 8, 0, 1.0)

    comparison = COMPARISONS["position"]
    curves = [Curve("both", "", (run(0, 0.2), run(1, 0.4))), Curve("one", "", (run(0, 0.1),))]
    assert table(comparison, curves).splitlines()[1:] == [
        "| | share of the letter | mean reward | share of the letter, all steps |",
        "|---|---|---|---|",
        "| both | 0.30 ± 0.14 | 0.50 ± 0.00 | 0.15 ± 0.07 |",
        "| one | 0.10 | 0.50 | 0.05 |",
    ]
