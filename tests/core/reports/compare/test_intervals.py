"""What a comparison says of rows that are all alike, of several answers to a prompt, and of several runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.compare.__main__ import main
from tests.core.reports.compare.written import compare_runs, opened, row, rows_of, run


def compared(folder: Path, *rows: Any) -> Any:
    return compare_runs(
        [opened(folder / str(number), each) for number, each in enumerate(rows)], rounds=100
    )


def test_twenty_wins_against_twenty_losses_have_intervals_with_a_width(tmp_path: Path) -> None:
    found = compared(tmp_path, rows_of([1.0] * 20), rows_of([0.0] * 20))
    reach = 1 - 0.05 ** (1 / 20)
    first, second = (each.interval for each in found.runs)
    between = found.differences[0].difference.interval
    assert (first.low, first.high) == pytest.approx((1 - reach, 1.0), abs=1e-6)
    assert (second.low, second.high) == pytest.approx((0.0, reach), abs=1e-6)
    assert (between.low, between.high) == pytest.approx((-1.0, -1 + 2 * reach), abs=1e-3)
    assert found.differences[0].settled


def test_answers_of_several_models_to_a_prompt_are_one_observation_in_an_evaluation(
    tmp_path: Path,
) -> None:
    """Four answers to each of twelve prompts, all of which change alike: as much as twelve rows say."""
    before, after = [0.0, 0.5, 1.0] * 4, [0.5, 0.5, 0.75] * 4

    def several(values: list[float]) -> list[Any]:
        return [
            row(f"{number}-{model}", value, question=f"Question {number}")
            for number, value in enumerate(values)
            for model in range(4)
        ]

    found = compared(tmp_path / "several", several(before), several(after))
    alone = compared(tmp_path / "alone", rows_of(before), rows_of(after))
    assert (found.unit, alone.unit) == ("prompt", "row")
    one, other = (each.differences[0].difference.interval for each in (found, alone))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-6)
    assert found.differences[0].tests[0].test.p == alone.differences[0].tests[0].test.p


@pytest.mark.slow
def test_of_several_runs_a_difference_is_settled_only_after_the_correction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 40 rows ten are won and one is lost: by itself that excludes 0, as one of three comparisons it does not."""
    first = [0.5] * 40
    better = [1.0] * 10 + [0.0] + [0.5] * 29
    alike = [1.0] * 3 + [0.0] * 3 + [0.5] * 34
    paths = [
        str(run(tmp_path / name, rows_of(values)))
        for name, values in zip("abcd", (first, better, alike, alike), strict=True)
    ]
    assert main([*paths[:2], "--rounds=100"]) == 0
    assert "The interval excludes 0; a difference" in " ".join(capsys.readouterr().out.split())
    assert main([*paths, "--rounds=100"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The interval excludes 0; " not in shown
    assert len(re.findall(r"excludes 0, but [^;]*\(corrected p = 0\.", shown)) == 1
    found = compared(tmp_path / "again", *map(rows_of, (first, better, alike, alike)))
    assert [each.settled for each in found.differences] == [False, False, False]
    assert (
        found.differences[0].p
        < 0.05
        < found.differences[0].p_corrected
        == pytest.approx(3 * found.differences[0].p)
    )
