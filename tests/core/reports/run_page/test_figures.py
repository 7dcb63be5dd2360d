"""The numbers of a run's page, against those of plain Python."""

from __future__ import annotations

from math import isnan
from statistics import mean
from typing import Any

from judgegym.engine.metrics import HeadlineTerm
from judgegym.reports.run_page.figures import RunFigures


def row(*, total: float | None = None, weight: float = 1.0, **fields: Any) -> dict[str, Any]:
    """What is added of a row."""
    headline = None if total is None else HeadlineTerm(total, weight)
    return {"status": "ok", "score": None, "length": 1, "headline": headline, **fields}


def figures(*rows: dict[str, Any]) -> RunFigures:
    of_run = RunFigures()
    for each in rows:
        of_run.add(**each)
    return of_run


def test_headline_is_the_sum_of_totals_over_the_sum_of_weights_of_rows_that_count() -> None:
    found = figures(
        row(total=3.0, weight=4.0), row(total=1.0, weight=1.0), row(status="judge_failed")
    ).headline()
    assert found is not None
    assert (found.value, found.rows, found.interval) == (4.0 / 5.0, 2, None), (
        "too few rows for an interval"
    )


def test_categories_have_means_of_their_own_rows() -> None:
    rows = [
        row(category=name, total=total, weight=1.0)
        for name, total in (("a", 1.0), ("b", 0.0), ("a", 0.0))
    ]
    of_run = figures(
        *rows, row(total=1.0, weight=1.0), row(category="failed", status="judge_failed")
    )
    found, left_out = of_run.average_by_category(most=9)
    assert left_out == 0
    assert {name: (each.value, each.rows) for name, each in found.items()} == {
        "a": (0.5, 2),
        "b": (0.0, 1),
        "(none)": (1.0, 1),
    }


def test_a_run_without_categories_has_none() -> None:
    assert figures(row(score=1.0), row(score=2.0)).average_by_category(most=9) == ({}, 0)


def test_points_by_order_count_rows_with_that_order() -> None:
    first, second = {"a": 1.0, "b": 0.0}, {"a": 0.5}
    of_run = figures(row(orders=first), row(orders=second), row())
    assert {order: each.value for order, each in of_run.average_by_order().items()} == {
        "a": mean([1.0, 0.5]),
        "b": 0.0,
    }
    assert (of_run.disagreeing, of_run.in_both_orders) == (1, 1)


def test_interval_holds_the_value_once_there_are_rows_enough() -> None:
    found = figures(*(row(total=float(n % 2), weight=1.0) for n in range(40))).headline()
    assert found is not None and found.interval is not None
    assert found.interval.low < found.value == 0.5 < found.interval.high


def test_a_number_that_is_not_finite_is_none() -> None:
    of_run = figures(row(score=float("inf"), judge_cost=float("nan")))
    assert isnan(of_run.scores[0]) and isnan(of_run.judge_costs[0])


def test_a_weight_of_zero_adds_nothing() -> None:
    of_run = figures(row(total=0.0, weight=0.0, score=1.0))
    assert not of_run.has_values
