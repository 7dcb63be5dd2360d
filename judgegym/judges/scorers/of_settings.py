"""The scorer of each kind of judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judges.llm.client import ChatClient
from judges.scorers.alone import AspectScorer, PeerScorer, RubricScorer
from judges.scorers.arena import ArenaScorer
from judges.scorers.choice import ChoiceScorer
from judges.scorers.groups import ListwiseScorer, TournamentScorer
from judges.scorers.scorer import Scorer
from judges.scorers.settings import JudgeKind, ScorerSettings

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
