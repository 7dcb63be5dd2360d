"""Which items a page holds."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from judgegym.reports.run_page.items import Rank, choose_items, rank

NAN = math.nan
RANKS = st.lists(st.builds(rank, st.booleans(), st.floats(-1, 1) | st.just(NAN)), max_size=60)


def ranks(*values: float, failed: tuple[int, ...] = ()) -> list[Rank]:
    return [rank(place in failed, value) for place, value in enumerate(values)]


def test_a_page_without_a_limit_holds_all_items_in_their_order_or_the_worst_first() -> None:
    assert choose_items(ranks(3.0, 1.0, 2.0), most=None, order="dataset") == (range(3), [])
    found = ranks(0.5, NAN, 0.0, NAN, 0.5, failed=(3,))
    assert choose_items(found, most=None, order="worst") == ([3, 1, 2, 0, 4], []), (
        "equals keep their order"
    )


def test_a_limit_keeps_failed_items_the_worst_and_some_of_the_others_and_says_so() -> None:
    values = [0.0 if place in (70, 80) else 1.0 for place in range(100)]
    places, (notice,) = choose_items(ranks(*values, failed=(5, 95)), most=6, order="dataset")
    assert list(places) == sorted({5, 95, 70, 80, *places})
    others = set(places) - {5, 95, 70, 80}
    assert len(others) == 2 and max(others) - min(others) > 40, "at even distances"
    assert re.match("This page holds 6 of 100 rows: all 2 .*failed, .*2 .*least value, .*2", notice)


def test_many_failed_items_take_half_of_the_page_or_all_of_it_where_there_is_nothing_else() -> None:
    places, (notice,) = choose_items(
        ranks(*[1.0] * 100, failed=tuple(range(60))), most=10, order="dataset"
    )
    assert sum(place < 60 for place in places) == 5
    assert "5 of 60 that failed" in notice
    places, _ = choose_items(ranks(*[NAN] * 100, failed=tuple(range(100))), most=10, order="worst")
    assert places == list(range(0, 100, 10))


@given(found=RANKS, most=st.integers(1, 30), order=st.sampled_from(["dataset", "worst"]))
def test_a_page_holds_each_item_once_and_is_as_full_as_it_may_be(
    found: list[Rank], most: int, order: str
) -> None:
    places, notices = choose_items(found, most=most, order=order)
    assert len(set(places)) == len(places) == min(most, len(found))
    assert len(notices) == (len(found) > most)
