"""A judge of any kind behind one face, and what of an item it is asked about.

Guarantees: an empty response costs no call; equal responses are judged once; a judge that sees each response by itself
gets each as an item of its own, so that equal responses of several items and requests can share one judgment, too.

The judges that see each response by itself: by a rubric, by aspects, as a peer.

The boundary around what is judged together, for whoever judges many such things.

Guarantee: an error of a judge is a failed judgment of the responses that it was asked about, and of no others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

from judgegym.judges.aspects.judge import AspectCase, PanelDetail, aspect_judge
from judgegym.judges.aspects.prompt import check_aspects
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.peers.judge import DEFAULT_RUBRIC, SCALE, PeerCase, peer_judge
from judgegym.judges.rubrics.judge import RubricCase, rubric_judge
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.judges.scorers.items import Item, ResponseScore, failed_by, failure, response_score, shared_score
from judgegym.judges.scorers.settings import ScorerSettings
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import UserError
from judgegym.llm.wire import is_blank

_EMPTY = failure("the response is empty: there is nothing to judge", Status.INVALID_COMPLETION.value)


class ItemError(ValueError):
    """An item lacks something that its judge needs; the message says what."""


class Scorer(Protocol):
    """A judge of any kind."""

    def check(self, item: Item) -> None:
        """Whether the item can be judged.

        Raises:
            ItemError: it lacks something.
        """

    def compares(self, item: Item) -> bool:
        """Whether the responses are judged together; otherwise `score` gets each of them in an item of its own."""

    async def score(self, item: Item) -> list[ResponseScore]:
        """A result for each response of a checked item."""


class ScoresInProgress(Protocol):
    """The judgment of responses to one prompt that arrive one by one."""

    def add(self, response: str) -> None:
        """Take one more response; what can be judged already may be judged at once."""

    async def close(self) -> list[ResponseScore]:
        """A result for each response, in the order in which they came."""

    def cancel(self) -> None:
        """Give up: nobody waits for the results any more."""


@runtime_checkable
class GroupScorer(Scorer, Protocol):
    """A judge that compares responses, which may arrive one by one."""

    def fewest(self, item: Item) -> int:
        """So many responses to an item, or more, can be judged."""

    def start(self, item: Item, size: int) -> ScoresInProgress:
        """Begin to judge responses to an item, of which at most `size` will come; those of the item do not count."""


Place: TypeAlias = "tuple[int, int]"
"""Where the result of a response is: the number of its case, and its number among the responses of the case."""


@dataclass(frozen=True, slots=True)
class ItemParts:
    """What is to be judged of an item.

    Attributes:
        cases: what the judge is asked about: the whole item, without its empty responses, or an item for each distinct
            response.
        results: for each response its result, if no judge is needed, or where the judge's will be.
    """

    cases: tuple[Item, ...]
    results: tuple[ResponseScore | Place, ...]


def but_alone(settings: ScorerSettings, item: Item) -> str:
    """The end of a message about a response that came alone: how several come together, if there is a way."""
    is_alone = len(item.responses) == 1 and item.places is None
    return f"; {settings.how_to_gather}" if is_alone and settings.how_to_gather else ""


def result_without_judge(item: Item) -> ResponseScore | None:
    """The result of the only response of an item if no judge is asked about it."""
    if item.fault is not None:
        return failure(item.fault)
    return _EMPTY if is_blank(item.response) else None


def parts_of(scorer: Scorer, item: Item) -> ItemParts:
    """What is to be judged of a checked item."""
    responses = item.responses
    if item.fault is not None:
        return ItemParts((), (failure(item.fault),) * len(responses))
    filled = tuple(number for number, response in enumerate(responses) if not is_blank(response))
    if len(filled) == len(responses) == 1:
        return ItemParts((item,), ((0, 0),))
    if filled and scorer.compares(item):
        return _compared(scorer, item, filled)
    texts = {text: number for number, text in enumerate(dict.fromkeys(responses[number] for number in filled))}
    cases = tuple(replace(item, responses=(text,)) for text in texts)
    return ItemParts(cases, tuple((texts[text], 0) if text in texts else _EMPTY for text in responses))


def _compared(scorer: Scorer, item: Item, filled: tuple[int, ...]) -> ItemParts:
    """The item without its empty responses, if the judge can compare the others."""
    count, places = len(item.responses), {number: place for place, number in enumerate(filled)}
    if len(filled) == count:
        return ItemParts((item,), tuple((0, number) for number in range(count)))
    rest = replace(item, responses=tuple(item.responses[number] for number in filled), places=filled)
    try:
        scorer.check(rest)
    except ItemError as error:
        why = f"{count - len(filled)} of {count} responses are empty or invalid; of the others: {error}"
        alone = failure(why, is_final=True)
        return ItemParts((), tuple(alone if number in places else _EMPTY for number in range(count)))
    return ItemParts((rest,), tuple((0, places[number]) if number in places else _EMPTY for number in range(count)))


def unit_score(judgment: Judgment[object], unit: Callable[[float], float]) -> ResponseScore:
    """The result of a judgment: its score from 0 to 1, and its raw score among the components."""
    if judgment.score is None:
        return response_score([judgment], None, {})
    return response_score([judgment], unit(judgment.score), {"raw": judgment.score})


async def score_item(scorer: Scorer, item: Item) -> list[ResponseScore]:
    """A result for each response of a checked item; what is judged by itself is judged at the same time.

    Equal responses are judged once; an empty one has no score, and costs no call.
    """
    parts = parts_of(scorer, item)
    if len(parts.cases) == 1:  # needs no task of its own
        judged = [await scorer.score(parts.cases[0])]
    else:
        judged = await all_results(scorer.score(case) for case in parts.cases)
    taken: set[Place] = set()
    results: list[ResponseScore] = []
    for known in parts.results:
        if isinstance(known, ResponseScore):
            results.append(known)
            continue
        number, place = known
        result = judged[number][place]
        results.append(shared_score(result) if known in taken else result)
        taken.add(known)
    return results


GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""The rubric judge's rubric if neither the request nor the settings have one."""


class _SingleResponses:
    """Sees each response by itself."""

    def compares(self, item: Item) -> bool:
        """No response is compared with another."""
        return False


class RubricScorer(_SingleResponses):
    """(score − lowest) / (highest − lowest) of the rubric judge."""

    def __init__(self, client: ChatClient, settings: ScorerSettings) -> None:
        """Judge as the settings say."""
        self._judge = rubric_judge(settings, client)
        self._scale = settings.scale
        self._rubric = settings.rubric or GENERAL_RUBRIC

    def check(self, item: Item) -> None:
        """Check that the item's rubric, if it has one, is on the scale."""
        beyond = next((level for level, _ in item.levels if level not in self._scale.levels), None)
        if beyond is not None:
            raise ItemError(f"rubric: a description of score {beyond}, beyond {self._scale.low} to {self._scale.high}")

    async def score(self, item: Item) -> list[ResponseScore]:
        """The response's score."""
        rubric = Rubric(item.rubric or self._rubric, dict(item.levels), self._scale)
        case = RubricCase(item.prompt, item.response, rubric, item.reference)
        return [unit_score(await self._judge.judge(case), self._scale.unit)]


class PeerScorer(_SingleResponses):
    """A peer's score of 0 to 100, by a rubric in text, over 100."""

    def __init__(self, client: ChatClient, settings: ScorerSettings) -> None:
        """Judge as the settings say."""
        self._judge = peer_judge(settings, client)
        self._rubric = settings.rubric or DEFAULT_RUBRIC

    def check(self, item: Item) -> None:
        """Check that the item's rubric, if it has one, is criteria alone."""
        if item.levels:
            raise ItemError("rubric: score descriptions, which the judge peer is not shown; expected criteria alone")

    async def score(self, item: Item) -> list[ResponseScore]:
        """The response's score."""
        case = PeerCase(item.prompt, item.response, item.rubric or self._rubric)
        return [unit_score(await self._judge.judge(case), SCALE.unit)]


class AspectScorer(_SingleResponses):
    """The combined score of a panel of aspects."""

    def __init__(self, client: ChatClient, settings: ScorerSettings) -> None:
        """Judge as the settings say."""
        self._client, self._settings = client, settings
        self._judge = aspect_judge(settings, client)

    def check(self, item: Item) -> None:
        """Check the item's aspects, if it has any."""
        if item.aspects is not None:
            try:
                check_aspects(item.aspects)
            except ValueError as error:
                raise ItemError(f"aspects: {error}") from error

    async def score(self, item: Item) -> list[ResponseScore]:
        """The response's score."""
        judge = self._judge
        if item.aspects is not None:
            judge = aspect_judge(self._settings.model_copy(update={"aspects": item.aspects}), self._client)
        case = AspectCase(item.response, item.prompt or None, item.context, item.reference)
        return [_aspect_result(await judge.judge(case))]


def _aspect_result(judgment: Judgment[PanelDetail]) -> ResponseScore:
    aspects = judgment.detail.aspects if judgment.detail is not None else ()
    verdicts = {detail.aspect: float(detail.yes) for detail in aspects if detail.yes is not None}
    return response_score([judgment], judgment.score, verdicts)


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
