"""Scorers: each maps an item to the cases of one judge, and its judgments to scores from 0 to 1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Protocol, TypeVar

from judges.arena.judge import ArenaCase, ArenaDetail, arena_judge
from judges.aspects.judge import AspectCase
from judges.aspects.panel import PanelDetail, aspect_judge
from judges.aspects.settings import check_aspects
from judges.core.judge import Judge
from judges.core.judgment import Judgment
from judges.core.seeding import generator
from judges.llm.client import ChatClient
from judges.pairwise.judge import ChoiceCase, choice_judge
from judges.pairwise.prompt import FEWEST_CHOICES, LETTERS, MOST_CHOICES
from judges.peers.judge import DEFAULT_RUBRIC, SCALE, PeerCase, peer_judge
from judges.rubrics.judge import RubricCase, rubric_judge
from judges.rubrics.prompt import Rubric
from judges.server.items import Item, ResponseScore, response_score
from judges.server.settings import JudgeKind, JudgeMount

GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""The rubric judge's rubric if neither the request nor the settings have one."""

MOST_COMPARED = 64
"""The most responses of one request that Arena-Hard's judge compares with each other: 2,016 battles of two games."""

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")


class ItemError(ValueError):
    """An item lacks something that its judge needs; the message says what."""


class Scorer(Protocol):
    """A judge as the server sees it."""

    def check(self, item: Item) -> None:
        """Whether the item can be judged.

        Raises:
            ItemError: it lacks something.
        """

    async def score(self, item: Item) -> list[ResponseScore]:
        """A result for each response of a checked item."""


async def _judge_all(judge: Judge[CaseT, DetailT], cases: Sequence[CaseT]) -> list[Judgment[DetailT]]:
    """Judge all cases at once."""
    return await asyncio.gather(*(judge.judge(case) for case in cases))


def _result(judgment: Judgment[object], unit: Callable[[float], float]) -> ResponseScore:
    """The result of a judgment: its score from 0 to 1, and its raw score among the components."""
    if judgment.score is None:
        return response_score([judgment], None, {})
    return response_score([judgment], unit(judgment.score), {"raw": judgment.score})


class RubricScorer:
    """(score − lowest) / (highest − lowest) of the rubric judge."""

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._judge = rubric_judge(mount, client)
        self._scale = mount.scale
        self._rubric = mount.rubric or GENERAL_RUBRIC

    def check(self, item: Item) -> None:
        """Check that the item's rubric, if it has one, is on the scale."""
        beyond = next((level for level, _ in item.levels if level not in self._scale.levels), None)
        if beyond is not None:
            raise ItemError(f"rubric: a description of score {beyond}, beyond {self._scale.low} to {self._scale.high}")

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        rubric = Rubric(item.rubric or self._rubric, dict(item.levels), self._scale)
        cases = [RubricCase(item.prompt, response, rubric, item.reference) for response in item.responses]
        return [_result(judgment, self._scale.unit) for judgment in await _judge_all(self._judge, cases)]


class PeerScorer:
    """A peer's score of 0 to 100, by a rubric in text, over 100."""

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._judge = peer_judge(mount, client)
        self._rubric = mount.rubric or DEFAULT_RUBRIC

    def check(self, item: Item) -> None:
        """Accept every item."""

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        cases = [PeerCase(item.prompt, response, item.rubric or self._rubric) for response in item.responses]
        return [_result(judgment, SCALE.unit) for judgment in await _judge_all(self._judge, cases)]


class AspectScorer:
    """The combined score of a panel of aspects."""

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._client, self._mount = client, mount
        self._judge = aspect_judge(mount, client)

    def check(self, item: Item) -> None:
        """Check the item's aspects, if it has any."""
        if item.aspects is not None:
            try:
                check_aspects(item.aspects)
            except ValueError as error:
                raise ItemError(f"aspects: {error}") from error

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        judge = self._judge
        if item.aspects is not None:
            judge = aspect_judge(self._mount.model_copy(update={"aspects": item.aspects}), self._client)
        question = item.prompt or None
        cases = [AspectCase(response, question, item.context, item.reference) for response in item.responses]
        return [_aspect_result(judgment) for judgment in await _judge_all(judge, cases)]


def _aspect_result(judgment: Judgment[PanelDetail]) -> ResponseScore:
    aspects = judgment.detail.aspects if judgment.detail is not None else ()
    verdicts = {detail.aspect: float(detail.yes) for detail in aspects if detail.yes is not None}
    return response_score([judgment], judgment.score, verdicts)


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

    async def score(self, item: Item) -> list[ResponseScore]:
        """Against the baseline, or each pair of responses once (in both orders): the mean of a response's battles."""
        baseline = _baseline(item)
        if baseline is not None:
            cases = [ArenaCase(item.prompt, response, baseline) for response in item.responses]
            return [_result(judgment, _win_rate) for judgment in await _judge_all(self._judge, cases)]
        pairs = list(combinations(range(len(item.responses)), 2))
        cases = [ArenaCase(item.prompt, item.responses[one], item.responses[other]) for one, other in pairs]
        battles = list(zip(pairs, await _judge_all(self._judge, cases), strict=True))
        return [_group_result(number, battles) for number in range(len(item.responses))]


def _group_result(number: int, battles: Sequence[tuple[tuple[int, int], Judgment[ArenaDetail]]]) -> ResponseScore:
    """A response's mean over its battles; a battle that failed leaves both sides without a score."""
    own = [(pair, battle) for pair, battle in battles if number in pair]
    rates = [
        _win_rate(battle.score) if pair[0] == number else 1.0 - _win_rate(battle.score)
        for pair, battle in own
        if battle.score is not None
    ]
    mean = sum(rates) / len(rates) if len(rates) == len(own) else None
    return response_score([battle for _, battle in own], mean, {"battles": float(len(own))})


def _baseline(item: Item) -> str | None:
    """The baseline of an item, or its reference, for protocols without a field for a baseline."""
    return item.reference if item.baseline is None else item.baseline


def _win_rate(score: float) -> float:
    """A row's reward from −1 to 1 as a win rate from 0 to 1."""
    return (score + 1.0) / 2.0


class ChoiceScorer:
    """1 for the response that the judge chooses as the best, 0 for the others: one call for all of them."""

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._judge, self._seed = choice_judge(mount, client), mount.seed

    def check(self, item: Item) -> None:
        """Check that there are 2 to 26 responses."""
        if not FEWEST_CHOICES <= len(item.responses) <= MOST_CHOICES:
            raise ItemError(f"responses: expected {FEWEST_CHOICES} to {MOST_CHOICES}, found {len(item.responses)}")

    async def score(self, item: Item) -> list[ResponseScore]:
        """Judge the responses, in an order that depends on the seed and the item only.

        The judge's letters are those of its order: the explanation begins with what they stand for, and each result has
        the `position` (from 1) at which the judge saw its response.
        """
        order = list(range(len(item.responses)))
        generator(self._seed, item.key("choice"), "order").shuffle(order)
        case = ChoiceCase(item.prompt, tuple(item.responses[number] for number in order))
        judgment = await self._judge.judge(case)
        if judgment.score is None or judgment.detail is None or judgment.detail.best is None:
            return [response_score([judgment], None, {}) for _ in order]
        best = order[judgment.detail.best]
        explanation = f"{_letters(item, order)}\n\n{judgment.explanation}"
        judgments = [
            replace(
                judgment,
                score=float(number == best),
                label="best" if number == best else "not the best",
                explanation=explanation,
            )
            for number in range(len(order))
        ]
        return [
            response_score([of_response], of_response.score, {"position": float(order.index(number) + 1)})
            for number, of_response in enumerate(judgments)
        ]


def _letters(item: Item, order: Sequence[int]) -> str:
    """What the judge's letters stand for, in the order of the caller."""
    places = range(len(order)) if item.places is None else item.places
    named = (f"{letter} is responses[{places[number]}]" for letter, number in zip(LETTERS, order, strict=False))
    return f"In the judge's order {', '.join(named)}."


_SCORERS: Mapping[JudgeKind, Callable[[ChatClient, JudgeMount], Scorer]] = {
    "rubric": RubricScorer,
    "aspect": AspectScorer,
    "peer": PeerScorer,
    "arena_hard": ArenaScorer,
    "choice": ChoiceScorer,
}


def scorer_of(mount: JudgeMount, client: ChatClient) -> Scorer:
    """The scorer of a mount."""
    return _SCORERS[mount.judge](client, mount)
