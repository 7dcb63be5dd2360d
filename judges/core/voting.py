"""Several independent answers to one question: asked at once, drawn again where one cannot be used, never too many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from judges.core.calls import Vote
from judges.core.judgment import JudgeCall

logger = logging.getLogger(__name__)

VOTE_TEMPERATURE = 0.7
"""Of several votes where no temperature is given: at 0 they would be one answer, given several times."""


def vote(number: int, *, count: int, temperature: float | None, seed: int) -> Vote:
    """The vote of a number; a single one is asked for as any other call is.

    Args:
        number: from 0.
        count: how many votes there are to be.
        temperature: of the votes, if one is given.
        seed: of the first vote, and one more for each further one.
    """
    if count == 1:
        return Vote(number, temperature)
    return Vote(number, VOTE_TEMPERATURE if temperature is None else temperature, seed + number)


def check_temperature(count: int, temperature: float | None) -> None:
    """Warn of votes that cannot differ."""
    if count > 1 and temperature == 0:
        logger.warning("%d votes at temperature 0 are one answer, given %d times", count, count)


async def collect_votes(
    ask: Callable[[int], Awaitable[JudgeCall]],
    missing: Callable[[Sequence[JudgeCall]], int],
    *,
    at_most: int,
) -> list[JudgeCall]:
    """Ask until nothing is missing.

    Args:
        ask: asks for the vote of a number, from 0. Votes that are drawn again have numbers of their own.
        missing: how many more answers are sure to be needed, given the usable ones so far; they are asked for at once.
            That is all of them, or, where a majority decides, those without which there can be none.
        at_most: votes in all, those that cannot be used among them.

    Returns:
        Every call, in the order of the votes' numbers.
    """
    calls: list[JudgeCall] = []
    while True:
        wanted = missing([call for call in calls if call.value is not None])
        wave = min(wanted, at_most - len(calls))
        if wave <= 0:
            return calls
        calls += await asyncio.gather(*(ask(len(calls) + number) for number in range(wave)))
