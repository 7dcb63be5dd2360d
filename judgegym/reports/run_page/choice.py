"""Which items a page holds, and in which order.

A browser opens a page of a few thousand items quickly, and a page of 100,000 not at all. So a page has a limit: items
that failed come first, then the worst, then others at even distances over the whole run; the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Order = Literal["dataset", "worst"]
ORDERS: tuple[Order, ...] = ("dataset", "worst")

MOST_ITEMS = 2000
"""What a page holds unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Rank:
    """What an item is chosen by.

    Attributes:
        failed: it has no score because a call failed, or because no verdict could be read.
        value: what it adds to the result; not a number without one.
    """

    failed: bool
    value: float

    @property
    def key(self) -> tuple[bool, bool, float]:
        """Sorts the worst items to the front: those that failed, those without a value, those of the least value."""
        has_value = not math.isnan(self.value)
        return (not self.failed, has_value, self.value if has_value else 0.0)


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The items of a page.

    Attributes:
        places: their places in the run, in the order of the page.
        notice: how they were chosen; `None` if the page holds all of them.
    """

    places: Sequence[int]
    notice: str | None


def choose(ranks: Sequence[Rank], *, most: int | None, order: Order, items: str = "rows") -> ItemSelection:
    """Choose the items of a page.

    Args:
        ranks: of all items, in the order of the run.
        most: how many the page may hold; `None` for all.
        order: that of the run, or the worst first.
        items: what they are called in the notice.
    """
    places: Sequence[int] = range(len(ranks))
    notice = None
    if most is not None and len(ranks) > most:
        places, notice = _some(ranks, most, items)
    if order == "worst":
        places = sorted(places, key=lambda place: (*ranks[place].key, place))
    return ItemSelection(places, notice)


def _some(ranks: Sequence[Rank], most: int, items: str) -> tuple[list[int], str]:
    failed = [place for place, rank in enumerate(ranks) if rank.failed]
    others = sorted((place for place, rank in enumerate(ranks) if not rank.failed), key=lambda at: (ranks[at].key, at))
    kept_failed = _evenly(failed, max(most // 2, most - len(others)))
    room = most - len(kept_failed)
    worst, rest = others[: room // 2], others[room // 2 :]
    spread = _evenly(sorted(rest), room - len(worst))
    all_failed = "all" if len(kept_failed) == len(failed) else f"{len(kept_failed)} of"
    of_failed = f"{all_failed} {len(failed)} that failed, " if failed else ""
    notice = (
        f"This page holds {most} of {len(ranks)} {items}: {of_failed}the {len(worst)} of the least value, and "
        f"{len(spread)} at even distances over the others. The charts and numbers are of all {items}."
    )
    return sorted([*kept_failed, *worst, *spread]), notice


def _evenly(places: Sequence[int], count: int) -> list[int]:
    """Places at even distances; all, if there are no more than `count`."""
    if len(places) <= count:
        return list(places)
    return [places[number * len(places) // count] for number in range(count)]
