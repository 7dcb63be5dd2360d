"""The headline by category."""

from __future__ import annotations

import pytest

from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample
from judgegym.environments.evaluate.metrics import Categories


def row(category: str | None, total: float | None, weight: float = 1.0) -> Sample[object]:
    share = None if total is None else HeadlineTerm(total, weight)
    return Sample[object]("uid", category, "a question", headline=share)


def test_value_of_a_category_is_that_of_its_rows_that_count() -> None:
    found = Categories()
    for sample in (row("math", 1.0), row("math", 3.0, 4.0), row("math", None), row(None, 1.0), row("art", 0.0)):
        found.add(sample)
    shown, others = found.largest(12)
    assert {name: (each.value, each.rows) for name, each in shown.items()} == {"math": (4 / 5, 2), "art": (0.0, 1)}
    assert others is None


def test_categories_beyond_the_largest_are_one() -> None:
    found = Categories()
    for number in range(20):
        for _ in range(number + 1):
            found.add(row(f"category {number}", number % 2))
    shown, others = found.largest(3)
    assert list(shown) == ["category 19", "category 18", "category 17"]
    assert len(found) == 20
    assert others is not None and others.rows == sum(range(1, 18))
    assert others.value == pytest.approx(sum(number + 1 for number in range(1, 17, 2)) / others.rows)
