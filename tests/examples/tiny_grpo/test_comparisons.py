"""Comparisons: what differs between the two trainings of a pair, their command lines and their tables."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from examples.tiny_grpo import __main__ as command
from examples.tiny_grpo import compare
from examples.tiny_grpo.compare import table
from examples.tiny_grpo.comparisons import COMPARISONS, Comparison
from examples.tiny_grpo.curve import Curve, SeedRun, Step, read_curves
from examples.tiny_grpo.run import Plan

README = Path(command.__file__).parent / "README.md"
ONE_EACH = {
    "failures": "environment",
    "random_failures": "environment",
    "position": "environment",
    "thinking": "serve",
    "length": "serve",
    "hack": "serve",
}


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_the_two_trainings_of_a_pair_differ_in_the_rule_alone(comparison: Comparison) -> None:
    names = {field.name for field in fields(comparison.rule)} - {"name", "title"}
    names -= {"others"}  # a judge that `serve` does not name is asked nothing
    differing = {
        name
        for name in names
        if getattr(comparison.rule, name) != getattr(comparison.without, name)
    }
    assert differing == {ONE_EACH[comparison.name]}
    assert comparison.rule.rows.exists() and comparison.measure in comparison.panels
    assert {panel.field for panel in comparison.panels} <= {field.name for field in fields(Step)}
    assert ":" not in comparison.rule.environment  # the product's own


def test_the_commands_of_the_readme_are_understood() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    commands = [
        shlex.split(line, comments=True)
        for line in lines
        if line.startswith("python -m examples.tiny_grpo ")
    ]
    assert len(commands) == 8
    for words in commands:
        command.make_parser().parse_args(words[3:])


def run(seed: int, last: float) -> SeedRun:
    shares = enumerate([0.0] * 10 + [last] * 10, 1)
    steps = [
        Step(n, 0.5, share, 1.0, 20.0, 1.0, 0.0, 0.1, 0.0, 0.0, 8.0, 0.0) for n, share in shares
    ]
    return SeedRun(seed, tuple(steps), 1.0, 8, 0, 1.0)


def test_a_table_has_the_mean_over_the_seeds_of_the_last_steps() -> None:
    curves = [Curve("both", "", (run(0, 0.2), run(1, 0.4))), Curve("one", "", (run(0, 0.1),))]
    assert table(COMPARISONS["position"], curves).splitlines()[1:] == [
        "| | share of the letter | mean reward | share of the letter, all steps |",
        "|---|---|---|---|",
        "| both | 0.30 ± 0.14 | 0.50 ± 0.00 | 0.15 ± 0.07 |",
        "| one | 0.10 | 0.50 | 0.05 |",
    ]


def test_a_comparison_leaves_a_picture_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def trained(plan: Plan) -> Curve:
        return Curve(plan.task.title, plan.command, (run(0, 0.1), run(1, 0.2)))

    monkeypatch.setattr(compare, "train_seeds", trained)
    monkeypatch.setattr(command, "find_spec", lambda module: module)
    assert command.main(["--compare=thinking", "--judge_noise=0.2", f"--out={tmp_path}"]) == 0
    assert {each.name for each in tmp_path.iterdir()} == {"thinking.png", "thinking.json"}
    rule, without = read_curves(tmp_path / "thinking.json")
    assert (
        rule.command
        == without.command
        == "python -m examples.tiny_grpo --compare=thinking --seeds=3 --steps=80 --judge_noise=0.2"
    )
    assert capsys.readouterr().out.count("means of the last 10 steps") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--compare=everything"], "--compare"),
        (
            ["--judge=scripted", "--judge_failures=2"],
            r"--judge_failures .* from 0 to 1, not 2\.0",
        ),
        (["--judge_failures=0.3"], r"--judge_failures=0\.3: .*scripted judge"),
    ],
)
def test_a_wrong_fault_is_one_line(
    argv: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda module: module)
    with pytest.raises(SystemExit) as ended:
        command.main([*argv, f"--out={tmp_path}"])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and re.search(said, error) and error.count("\n") == 1
