"""What is required of corrected numbers, with a tenth of the benchmark's runs."""

from __future__ import annotations

import json
from collections import Counter
from math import sqrt

import pytest

from benchmarks.corrected_coverage import LLMBAR, line_of, measure, requirements
from tests.command import ROOT

DATA = ROOT.parent / "shared" / "data" / "llmbar"
RUNS = 200
NAMES = {"good": "GPT-4", "medium": "PaLM2", "bad": "ChatGPT"}


def slack(share: float) -> float:
    """Two standard errors of a share over 200 runs, such as .038 of .92: what just meets it passes in 97.7 %."""
    return 2 * sqrt(share * (1 - share) / RUNS)


@pytest.mark.slow
@pytest.mark.timeout(600)  # some 45 seconds of CPU
def test_coverage_width_differences_top_up_and_plans_are_as_required() -> None:
    cells = list(measure(RUNS))
    missed = [str(line) for line in requirements(cells, slack) if line.is_met is not True]
    assert not missed
    rates = [cell for cell in cells if cell.part == "rate" and cell.judge in LLMBAR]
    assert len(rates) == 27
    naive = [sum(cell.naive) / RUNS for cell in rates]
    assert min(naive) == 0.0, "the naive interval never holds a truth of .8"
    assert sum(naive) / 27 < 0.5
    assert all(f"{cell.coverage:.3f}" in line_of(cell) for cell in cells)


@pytest.mark.skipif(not DATA.is_dir(), reason="the data of LLMBar is not here")
def test_the_judges_err_as_on_llmbar() -> None:
    labels = {row["uid"]: row["label"] for row in map(json.loads, (DATA / "rows.jsonl").open())}
    verdicts = {
        line["judge"]: line["winner"]
        for line in map(json.loads, (DATA / "verdicts.jsonl").open())
        if line["prompt"] == "Vanilla"
    }
    for judge, counts in LLMBAR.items():
        right = Counter(
            sum(
                0.5 if winner is None else float(winner == label)
                for winner in verdicts[NAMES[judge]][uid]
            )
            for uid, label in labels.items()
        )
        assert counts == (right[2], right[1], right[0])
