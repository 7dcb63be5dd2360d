"""Several independent answers to one question: asked at once, asked again where one cannot be used, never too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from judges.core.calls import Vote
from judges.core.judgment import JudgeCall

ValueT = TypeVar("ValueT")


def vote(number: int, *, count: int, seed: int) -> Vote:
    """The vote of a number; a single one has no seed, as any other call.

    Args:
        number: from 0.
        count: how many votes there are to be.
        seed: of the first vote, and one more for each further one.
    """
    return Vote(number) if count == 1 else Vote(number, seed + number)


async def collect_votes(
    ask: Callable[[int], Awaitable[JudgeCall[ValueT]]],
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int],
    *,
    at_most: int,
) -> list[JudgeCall[ValueT]]:
    """Ask until nothing is missing.

    Args:
        ask: asks for the vote of a number, from 0. Each vote has a number of its own, those asked for again too.
        missing: how many more answers are sure to be needed, given the usable ones so far; they are asked for at once.
            That is all of them, or, where a majority decides, as many as any majority needs.
        at_most: votes in all, including those that cannot be used.

    Returns:
        Every call, in the order of the votes' numbers.
    """
    calls: list[JudgeCall[ValueT]] = []
    while True:
        wanted = missing([call for call in calls if call.value is not None])
        wave = min(wanted, at_most - len(calls))
        if wave <= 0:
            return calls
        calls += await asyncio.gather(*(ask(len(calls) + number) for number in range(wave)))
