"""The judges that see each response by itself: by a rubric, by aspects, as a peer."""

from __future__ import annotations

from judgegym.judges.aspects.judge import AspectCase
from judgegym.judges.aspects.panel import PanelDetail, aspect_judge
from judgegym.judges.aspects.settings import check_aspects
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.peers.judge import DEFAULT_RUBRIC, SCALE, PeerCase, peer_judge
from judgegym.judges.rubrics.judge import RubricCase, rubric_judge
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.judges.scorers.items import Item, ResponseScore, response_score
from judgegym.judges.scorers.scorer import ItemError, unit_score
from judgegym.judges.scorers.settings import ScorerSettings
from judgegym.llm.client import ChatClient

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
