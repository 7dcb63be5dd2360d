"""The boundary around what is judged together, for whoever judges many such things.

Guarantee: an error of a judge is a failed judgment of the responses that it was asked about, and of no others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from judgegym.judges.scorers.items import Item, ResponseScore, failed_by
from judgegym.llm.errors import UserError

logger = logging.getLogger(__name__)

ScoreItem: TypeAlias = Callable[[Item], Awaitable[list[ResponseScore]]]
"""Scores the responses of an item, as `score_item` does."""


async def results_of(score: ScoreItem, item: Item, name: str) -> list[ResponseScore]:
    """The results of an item's responses; where the judge raises an error, a failure for each.

    Args:
        score: judges.
        item: what is judged.
        name: of the item, in the log.

    Raises:
        UserError: what no further call can mend, such as a disk that stays full.
    """
    try:
        return await score(item)
    except UserError:
        raise  # it is not of this item: no other would end better
    except Exception as error:  # boundary of an item: an error of a judge fails this item alone
        logger.exception("%s: the judge failed", name)
        return failed_by(error, len(item.responses))
