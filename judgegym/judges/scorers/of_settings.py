"""The scorer of each kind of judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judgegym.judges.scorers.comparisons import ArenaScorer, ChoiceScorer
from judgegym.judges.scorers.groups import ListwiseScorer, TournamentScorer
from judgegym.judges.scorers.scorer import AspectScorer, PeerScorer, RubricScorer, Scorer
from judgegym.judges.scorers.settings import JudgeKind, ScorerSettings
from judgegym.llm.client import ChatClient

_SCORERS: Mapping[JudgeKind, Callable[[ChatClient, ScorerSettings], Scorer]] = {
    "rubric": RubricScorer,
    "aspect": AspectScorer,
    "peer": PeerScorer,
    "arena_hard": ArenaScorer,
    "choice": ChoiceScorer,
    "listwise": ListwiseScorer,
    "tournament": TournamentScorer,
}


def scorer_of(settings: ScorerSettings, client: ChatClient) -> Scorer:
    """The scorer of a judge."""
    return _SCORERS[settings.judge](client, settings)
