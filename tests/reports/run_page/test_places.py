"""The chart of places: what a judge of groups gives the answers at each of them."""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.judges.core.group import Look
from judgegym.reports.run_page.charts import by_place
from judgegym.reports.run_page.figures import RunFigures


def said(*groups: Sequence[float]) -> str:
    """The chart in words, of groups of which each answer was shown once, in this order."""
    figures = RunFigures()
    for points in groups:
        for place, point in enumerate(points, start=1):
            look = Look(place, len(points), point)
            figures.add(status="ok", score=point, length=1, looks=[look])
    chart = by_place(figures)
    assert chart is not None
    return chart.description


def test_bars_are_the_mean_points_of_each_place() -> None:
    assert "place 1: 0.700 of 2; place 2: 0.300 of 2; place 3: 0.100 of 2." in said((0.8, 0.4, 0.1), (0.6, 0.2, 0.1))


def test_level_of_large_groups_is_no_preference_for_late_places() -> None:
    """Places 3 and 4 are those of the large group alone, whose answers are worse."""
    bars = said((0.9, 0.9), (0.3, 0.3, 0.3, 0.3))
    assert "place 1: 0.500 of 2; place 2: 0.500 of 2; place 3: 0.500 of 1; place 4: 0.500 of 1." in bars
    assert "calls that showed as many" in bars
