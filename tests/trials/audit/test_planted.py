"""Planted faults are found and a judge without one is not accused: a tenth of `python -m benchmarks.audit_planted`."""

from __future__ import annotations

import pytest

from benchmarks.audit_planted import FAULTS, PLANS, checks_of, failed, found, plan, pool


@pytest.fixture(scope="module", autouse=True)
def _texts() -> None:
    pool()


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "clean"])
def test_a_planted_fault_is_found(fault: str) -> None:
    assert failed(checks_of(fault, 0)) & FAULTS[fault]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_in_95_of_100_audits_and_nobody_else_is_accused(fault: str) -> None:
    result = found(fault, range(20))
    assert result.found >= 0.95 or fault == "clean"
    assert result.others <= (0.0 if fault == "clean" else 0.05)


def test_too_few_rows_accuse_nobody_and_say_how_many_it_takes() -> None:
    for fault, word in (("clean", "underpowered"), ("position", "suspect")):
        checks = checks_of(fault, 1, 30)
        assert checks["first_place_advantage"].word == word
        assert 150 <= (checks["first_place_advantage"].rows_needed or 0) <= 1500
        assert "nothing is decided" in checks["first_place_advantage"].sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "check", "word", "rate", "rows"), [*PLANS[:3], PLANS[6], PLANS[9]]
)
def test_with_the_rows_that_it_takes_the_power_is_what_is_said(
    fault: str, check: str, word: str, rate: float | None, rows: int
) -> None:
    line = plan(fault, check, word, rate, rows, 100)
    below, there, above = line.powers
    assert below < 0.86 and 0.7 <= there <= 0.9 and above > 0.78
