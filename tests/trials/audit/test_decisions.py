"""Probabilities of a decision model in an audit: the calibration of an honest one, and of one that is too sure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.command import serving
from tests.decisions import decisions_url, gateway
from tests.scripted import Json
from tests.trials.audit.test_calling import Rows, audit, report


def labelled(count: int) -> Rows:
    """Responses that are the probability of their gold label."""
    numbers = Random(5)
    rows = []
    for number in range(count):
        share = numbers.random()
        gold = "yes" if numbers.random() < share else "no"
        rows.append({"prompt": f"Row {number}?", "response": f"{share:.4f}", "gold": gold})
    return rows


@pytest.mark.parametrize(
    ("says", "is_calibrated"),
    [(lambda share: share, True), (lambda share: 0.97 if share >= 0.5 else 0.03, False)],
)
def test_the_calibration_of_probabilities(
    tmp_path: Path, says: Callable[[float], float], is_calibrated: bool
) -> None:
    def answer(question: Json, state: Any) -> float:
        return says(float(state["response"]))

    words = ("--judge=aspect", "--aspects=correctness", "--judge_api=decisions", "--repeats=0")
    with serving(gateway(answer)) as judge:
        judge.base_url = decisions_url(judge)
        ended = audit(tmp_path, judge, labelled(200), *words)
        assert len(judge.requests) == 200, ended.said
    found = report(tmp_path)
    assert sum(rows for rows, _, _ in found["curve"]) == 200
    error, accuracy = (found["by_name"][name] for name in ("calibration_error", "accuracy"))
    assert accuracy["value"] == pytest.approx(0.75, abs=0.08)
    if is_calibrated:
        assert error["interval"]["low"] <= 0 and error["value"] < 0.1
    else:
        assert error["interval"]["low"] > 0.1


def test_the_calibration_of_choices_is_that_of_both_orders(tmp_path: Path) -> None:
    """The judge prefers the first place by 0.1, which both orders together take out."""
    numbers = Random(5)
    rows = []
    for number in range(150):
        share = 0.1 + 0.8 * numbers.random()
        label = 1 if numbers.random() < share else 2
        responses = [f"{share:.4f}", f"{1 - share:.4f}"]
        rows.append({"prompt": f"Row {number}?", "responses": responses, "label": label})

    def answer(question: Json, state: Any) -> float:
        return min(1.0, float(state["responses"]["A"]) + 0.1)

    words = ("--judge=choice", "--judge_api=decisions", "--repeats=0")
    with serving(gateway(answer)) as judge:
        judge.base_url = decisions_url(judge)
        ended = audit(tmp_path, judge, rows, *words)
        assert len(judge.requests) == 300, ended.said
    found = report(tmp_path)
    error, consistency = (
        found["by_name"][name] for name in ("calibration_error", "position_consistency")
    )
    assert error["interval"]["low"] <= 0 and error["value"] < 0.1
    flipped = sum(abs(float(row["responses"][0]) - 0.5) < 0.1 for row in rows)
    assert consistency["value"] == pytest.approx(1 - flipped / 150, abs=0.01)
    assert sum(predicted * rows for rows, predicted, _ in found["curve"]) / 150 == pytest.approx(
        sum(float(row["responses"][0]) for row in rows) / 150, abs=0.01
    )
