"""Several independent votes on one question: requested at once, and again for each vote that has no verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from judgegym.judges.core.calls import Vote
from judgegym.judges.core.judgment import JudgeCall
from judgegym.llm.at_once import all_results

ValueT = TypeVar("ValueT")

MOST_VOTES = 99
"""The most votes on one question: settings and rows that ask for more are refused, since each vote is a paid call."""


def vote(number: int, *, count: int, seed: int) -> Vote:
    """The vote with this number. A single vote is sent without a seed, like any other call.

    Args:
        number: from 0.
        count: the number of votes on the question.
        seed: the seed of vote 0; vote n gets `seed + n`.
    """
    return Vote(number) if count == 1 else Vote(number, seed + number)


async def collect_votes(
    ask: Callable[[int], Awaitable[JudgeCall[ValueT]]],
    missing: Callable[[Sequence[JudgeCall[ValueT]]], int],
    *,
    at_most: int,
) -> list[JudgeCall[ValueT]]:
    """Request votes until none is missing, or all calls that were made at once have failed.

    A vote is requested again where the answer has no verdict. A failed call has had its retries and its deadline: a
    judge that never answers costs one deadline, not one for each redraw.

    Args:
        ask: requests the vote with a number, from 0. Each call has a number of its own, also a repeated one.
        missing: how many more votes are certainly needed, given the usable ones so far; they are requested at once.
            With a majority that is as many as the smallest majority lacks, otherwise all that are missing.
        at_most: the most calls, including those without a verdict.

    Returns:
        Every call, in the order of its number.
    """
    calls: list[JudgeCall[ValueT]] = []
    while True:
        wanted = missing([call for call in calls if call.value is not None])
        wave = min(wanted, at_most - len(calls))
        if wave <= 0:
            return calls
        numbers = range(len(calls), len(calls) + wave)
        # A single vote needs no task of its own.
        asked = [await ask(number) for number in numbers] if wave == 1 else await all_results(map(ask, numbers))
        calls += asked
        if all(call.failed for call in asked):
            return calls
