"""What a page is written from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from judgegym.reports.run_page.items import MOST_ITEMS, ItemDetail, ItemSummary, Order, PageHead


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How a page is made.

    Attributes:
        order: the order of its items; by default that of the run, and of a scored data set the worst first.
        samples: the most items that it holds; `None` for all.
    """

    order: Order | None = None
    samples: int | None = MOST_ITEMS


@dataclass(frozen=True, slots=True)
class Contents:
    """A page's head, and its items, which are read each time that they are gone through."""

    head: PageHead
    items: Callable[[], Iterator[tuple[ItemSummary, ItemDetail]]]
