"""Compared runs, corrected by labels: each result, and the paired difference over rows that have labels in both."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgegym.engine.completions import Completion
from judgegym.reports.compare.__main__ import main
from judgegym.statistics.corrected import CorrectedMean, corrected_mean
from judgegym.statistics.intervals import Ends
from tests.core.reports.compare.written import rows_of, run

GENERATOR = np.random.default_rng(1)
TRUTHS = [(GENERATOR.random(80) < rate).astype(float) for rate in (0.5, 0.7)]
JUDGES = [np.where(GENERATOR.random(80) < 0.85, truth, 1 - truth) for truth in TRUTHS]
HOW = {"how": "random", "seed": 0, "rows": 80, "run": ""}


def runs(folder: Path, *, answers: Sequence[str] = ("one", "two"), **facts: Any) -> list[str]:
    return [
        str(run(folder / name, rows_of(judge.tolist(), completions=(Completion(answer),)), **facts))
        for name, judge, answer in zip("ab", JUDGES, answers, strict=True)
    ]


def labels(path: Path, truth: Any, count: int, **drawn: Any) -> Path:
    lines = [{"drawn": {**HOW, **drawn}}]
    lines += [{"uid": f"row-{n}", "labeller": "ann", "label": truth[n]} for n in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compared(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([str(word) for word in ("--rounds=100", *words)])
    return code, *capsys.readouterr()


@pytest.mark.slow
def test_results_and_difference_are_corrected_in_json_terminal_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [labels(tmp_path / f"{n}.jsonl", truth, 40 + 10 * n) for n, truth in enumerate(TRUTHS)]
    flags = [f"--labels={file}" for file in files]
    page, out = tmp_path / "page.html", tmp_path / "out.json"
    code, shown, _ = compared(
        *runs(tmp_path), *flags, f"--html={page}", f"--json={out}", capsys=capsys
    )
    assert code == 0
    numbers = json.loads(out.read_text())["corrected"]["numbers"]
    given = [np.where(np.arange(80) < 40 + 10 * n, truth, np.nan) for n, truth in enumerate(TRUTHS)]
    expected = [
        corrected_mean(judge, own, kind="rate") for judge, own in zip(JUDGES, given, strict=True)
    ]
    expected.append(
        corrected_mean(JUDGES[1] - JUDGES[0], given[1] - given[0], kind="mean", ends=Ends(-1, 1))
    )
    for number, found, name, count in zip(
        numbers, expected, ("A", "B", "B − A"), (40, 50, 40), strict=True
    ):
        assert isinstance(found, CorrectedMean)
        assert (number["name"], number["labels"], number["reason"]) == (name, count, "")
        assert number["value"] == pytest.approx(found.value)
        assert number["interval"] == {"low": found.interval.low, "high": found.interval.high}
        assert number["weight"] == pytest.approx(found.weight)
        cells = f"{found.value:.4f}", f"{found.interval.low:.4f} to {found.interval.high:.4f}"
        for text in (shown, page.read_text()):
            assert all(cell in text for cell in cells)
            assert f"{name}: {count} labels and the judge" in text
    assert max(map(len, shown.splitlines())) <= 80 or str(tmp_path) in shown


@pytest.mark.slow
def test_one_file_is_for_judges_of_the_same_responses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = labels(tmp_path / "labels.jsonl", TRUTHS[0], 40)
    same = runs(tmp_path / "same", answers=("one", "one"))
    code, shown, _ = compared(*same, f"--labels={file}", capsys=capsys)
    assert code == 0
    assert re.search("B − A: [^:]*the same responses", " ".join(shown.split()))
    other = runs(tmp_path / "other")
    code, _, error = compared(*other, f"--labels={file}", capsys=capsys)
    assert (code, error.count("\n")) == (2, 1)
    assert "other responses" in error and "--labels once" in error
    code, _, error = compared(*other, *[f"--labels={file}"] * 3, capsys=capsys)
    assert (code, error.count("\n")) == (2, 1)
    assert re.match("--labels: .*one file .*each of 2; found 3", error)


@pytest.mark.slow
def test_a_difference_has_no_interval_where_rows_were_drawn_by_score_or_are_not_known_to_be_random(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [{"name": f"to {value}", "rows": int((JUDGES[0] == value).sum())} for value in (0, 1)]
    first = labels(tmp_path / "0.jsonl", TRUTHS[0], 40, how="by_score", strata=names)
    second = labels(tmp_path / "1.jsonl", TRUTHS[1], 40)
    out, both = tmp_path / "out.json", runs(tmp_path)
    assert (
        compared(*both, f"--labels={first}", f"--labels={second}", f"--json={out}", capsys=capsys)[
            0
        ]
        == 0
    )
    numbers = json.loads(out.read_text())["corrected"]["numbers"]
    assert [number["interval"] is None for number in numbers] == [False, False, True]
    assert all(words in numbers[2]["reason"] for words in ("drawn by", "each run", "no interval"))
    second.write_text("".join(second.read_text().splitlines(keepends=True)[1:]))
    assert (
        compared(*both, f"--labels={first}", f"--labels={second}", f"--json={out}", capsys=capsys)[
            0
        ]
        == 0
    )
    numbers = json.loads(out.read_text())["corrected"]["numbers"]
    assert ["not drawn at" in number["reason"] for number in numbers] == [False, True, True]
