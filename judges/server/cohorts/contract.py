"""The contract of cohorts: single responses are joined to the others of their group, and judged with them."""

from __future__ import annotations

from typing import Protocol

from judges.server.items import Item, ResponseScore


class Cohorts(Protocol):
    """The cohorts of all judges, wherever they are kept."""

    async def join(self, mount: str, item: Item, spent_s: float) -> ResponseScore:
        """The result of the response of an item among those of its cohort, before the caller's deadline.

        A caller that is cancelled leaves its response in the cohort: it may ask again.

        Args:
            mount: the judge's name.
            item: a checked item with one response that is not empty.
            spent_s: seconds of the deadline that have passed.

        Raises:
            OverloadError: too many judgments are pending; the response has no place in a cohort.
        """
