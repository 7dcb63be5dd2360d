"""The rate of the last minute, and the time that the rest takes."""

from __future__ import annotations

import pytest

from judgegym.engine.terminal.output import format_dollars, format_duration
from judgegym.engine.terminal.progress import RecentRate, format_rate


@pytest.mark.parametrize(
    ("per_second", "words"),
    [
        (2274.5, "2,274 rows/s"),
        (12.34, "12.3 rows/s"),
        (1.0, "1.0 rows/s"),
        (0.5, "30.0 rows/min"),
        (0.01, "36.0 rows/h"),
        (0.0001, "0.36 rows/h"),
    ],
)
def test_rate_is_said_in_the_unit_in_which_it_is_a_number_above_one(
    per_second: float, words: str
) -> None:
    assert format_rate(per_second, "rows") == words
    assert format_rate(0.0, "rows") == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (2.34, "2.3 s"),
        (9.96, "10 s"),
        (99.4, "99 s"),
        (245.0, "4 min 05 s"),
        (11220.0, "3 h 07 min"),
    ],
)
def test_times_are_said_as_people_do(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words
    assert format_duration(7.8, tenths=False) == "8 s"


@pytest.mark.parametrize(
    ("cost", "words"),
    [(None, "unknown"), (0.0, "$0.00"), (0.01234, "$0.0123"), (1234.5, "$1,234.50")],
)
def test_cost_is_never_zero_because_it_is_unknown_or_small(cost: float | None, words: str) -> None:
    assert format_dollars(cost) == words


def test_rate_is_that_of_the_last_minute() -> None:
    rate = RecentRate(0, now=0.0)
    for second in range(1, 601):
        rate.note(second * 10, second)
    for second in range(601, 701):
        rate.note(6000 + second - 600, second)
    assert rate.per_second(700.0) == pytest.approx(1.0, rel=0.05)
