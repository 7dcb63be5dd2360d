"""Curves of a bounded number of points."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.reports.training.curves import MOST_POINTS, Curve


def curve_of(values: list[float], **options: Any) -> Curve:
    curve = Curve(**options)
    for step, value in enumerate(values):
        curve.add(step, value)
    return curve


def test_few_values_are_drawn_as_they_are() -> None:
    assert curve_of([1.0, 0.5]).view("a") == {"name": "a", "x": [0, 1], "y": [1.0, 0.5]}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=2_000))
def test_points_are_bounded_and_lie_within_their_range(values: list[float]) -> None:
    curve = curve_of(values)
    view: Any = curve.view("a")
    assert len(view["x"]) == len(view["y"]) == len(curve) <= MOST_POINTS
    assert view["x"][-1] == len(values) - 1, "the last value is in the last point"
    low, high = view.get("low", view["y"]), view.get("high", view["y"])
    assert min(low) == pytest.approx(min(values), abs=1e-4) and max(high) == pytest.approx(
        max(values), abs=1e-4
    )
    assert all(one <= mean <= other for one, mean, other in zip(low, view["y"], high, strict=True))


def test_points_of_a_long_curve_are_means_of_equally_many_values() -> None:
    curve = curve_of([float(step % 8) for step in range(MOST_POINTS * 8)])
    view: Any = curve.view("a")
    assert set(view["y"]) == {3.5} and set(view["low"]) == {0.0} and set(view["high"]) == {7.0}


def test_a_band_of_its_own_is_averaged() -> None:
    curve = Curve(has_band=True)
    for step in range(MOST_POINTS * 2):
        curve.add(step, 0.5, 0.4 if step % 2 else 0.2, 0.8)
    view: Any = curve.view("a")
    assert set(view["low"]) == {0.3} and set(view["high"]) == {0.8}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out(value: float) -> None:
    assert len(curve_of([value])) == 0
