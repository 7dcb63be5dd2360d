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
