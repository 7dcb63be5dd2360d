"""The contract of cohorts: single responses are joined to the others of their group, and judged with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from judgegym.judges.scorers.items import Item, ResponseScore


class Cohorts(Protocol):
    """The cohorts of all judges, wherever they are kept."""

    async def join(self, mount: str, item: Item, spent_s: float) -> ResponseScore:
        """The result of the response of an item among those of its cohort, before the caller's deadline.

        A caller that is cancelled leaves its response in the cohort: it may ask again. A response that cannot be judged
        (an empty one) takes a place, so that nobody waits for it, and has its result at once.

        Args:
            mount: the judge's name.
            item: an item with one response.
            spent_s: seconds of the deadline that have passed.

        Raises:
            OverloadError: too many judgments are pending; no cohort that is open has a place for the response.
        """


Connect: TypeAlias = Callable[[Cohorts], AbstractAsyncContextManager[Cohorts]]
"""Opens the cohorts of all processes, given those of this one."""
