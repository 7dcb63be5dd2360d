"""Arena-Hard's judge: the win rate in both orders, against a baseline or of several responses against each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from judges.arena.judge import ArenaCase, ArenaDetail, arena_judge
from judges.core.judgment import Judgment, Status
from judges.llm.client import ChatClient
from judges.server.items import Item, ResponseScore, response_score
from judges.server.scorers.scorer import ItemError, unit_score
from judges.server.settings import JudgeMount

MOST_COMPARED = 64
"""The most responses of one request that are compared with each other: 2,016 battles of two games."""

_TIE: Judgment[ArenaDetail] = Judgment(0.0, Status.OK, "tie", "An equal response: a tie, without a call.")


class ArenaScorer:
    """The win rate over both orders: against a baseline, or of several responses against each other."""

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._judge = arena_judge(mount, client)

    def check(self, item: Item) -> None:
        """Check that there is a baseline or other responses to compare with, and not too many of them."""
        if _baseline(item) is not None:
            return
        if len(item.responses) < 2:
            raise ItemError("baseline: expected a baseline, or several responses to compare with each other")
        if len(item.responses) > MOST_COMPARED:
            count = len(item.responses)
            raise ItemError(f"responses: at most {MOST_COMPARED} against each other, found {count}; give a baseline")

    def compares(self, item: Item) -> bool:
        """Without a baseline, responses are compared with each other."""
        return _baseline(item) is None

    async def score(self, item: Item) -> list[ResponseScore]:
        """Against the baseline, or the mean of a response's battles with each other response.

        Each pair of distinct responses has one battle, in both orders; equal responses tie without one.
        """
        baseline = _baseline(item)
        if baseline is not None:
            judgment = await self._judge.judge(ArenaCase(item.prompt, item.response, baseline))
            return [unit_score(judgment, _win_rate)]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(item.responses))}
        texts, pairs = list(numbers), list(combinations(range(len(numbers)), 2))
        cases = [ArenaCase(item.prompt, texts[one], texts[other]) for one, other in pairs]
        judgments = await asyncio.gather(*(self._judge.judge(case) for case in cases))
        battles = dict(zip(pairs, judgments, strict=True))
        everyone = [numbers[text] for text in item.responses]
        return [_of_battles(everyone, place, battles) for place in range(len(everyone))]


def _of_battles(
    everyone: Sequence[int], place: int, battles: Mapping[tuple[int, int], Judgment[ArenaDetail]]
) -> ResponseScore:
    """A response's mean over its battles; a battle that failed leaves both sides without a score.

    Args:
        everyone: for each response the number of its text.
        place: of the response.
        battles: the judgment of each pair of texts; its calls count for the first of the two.
    """
    own, is_equal = everyone[place], everyone[place] in everyone[:place]
    rates: list[float] = []
    judgments: list[Judgment[ArenaDetail]] = []
    for number in (*everyone[:place], *everyone[place + 1 :]):
        battle = _TIE if number == own else battles[min(own, number), max(own, number)]
        judgments.append(battle)
        if battle.score is not None:
            rates.append(_win_rate(battle.score) if own <= number else 1.0 - _win_rate(battle.score))
    mean = sum(rates) / len(rates) if len(rates) == len(judgments) else None
    paid = [] if is_equal else [battle for (one, _), battle in battles.items() if one == own]
    result = response_score(judgments, mean, {"battles": float(len(judgments))}, paid=paid)
    return replace(result, shared=is_equal)


def _baseline(item: Item) -> str | None:
    """The baseline of an item, or its reference, for protocols without a field for a baseline."""
    return item.reference if item.baseline is None else item.baseline


def _win_rate(score: float) -> float:
    """A row's reward from −1 to 1 as a win rate from 0 to 1."""
    return (score + 1.0) / 2.0
