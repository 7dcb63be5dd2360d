"""How often a cascade's judges differ where the cheap one decides: exact bounds."""

from __future__ import annotations

import pytest
from statsmodels.stats.proportion import proportion_confint

from judgegym.statistics.cascades import upper_bound


@pytest.mark.parametrize(("events", "rows"), [(0, 50), (3, 210), (49, 50), (50, 50)])
def test_the_bound_is_that_of_clopper_and_pearson(events: int, rows: int) -> None:
    _, high = proportion_confint(events, rows, alpha=0.1, method="beta")
    assert upper_bound(events, rows, level=0.95) == pytest.approx(high)


@pytest.mark.parametrize(("events", "rows"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(events: int, rows: int) -> None:
    with pytest.raises(ValueError):
        upper_bound(events, rows, level=0.95)
