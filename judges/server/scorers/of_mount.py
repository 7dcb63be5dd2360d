"""The scorer of each kind of judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judges.llm.client import ChatClient
from judges.server.scorers.alone import AspectScorer, PeerScorer, RubricScorer
from judges.server.scorers.arena import ArenaScorer
from judges.server.scorers.choice import ChoiceScorer
from judges.server.scorers.groups import ListwiseScorer, TournamentScorer
from judges.server.scorers.scorer import Scorer
from judges.server.settings.mount import JudgeKind, JudgeMount

_SCORERS: Mapping[JudgeKind, Callable[[ChatClient, JudgeMount], Scorer]] = {
    "rubric": RubricScorer,
    "aspect": AspectScorer,
    "peer": PeerScorer,
    "arena_hard": ArenaScorer,
    "choice": ChoiceScorer,
    "listwise": ListwiseScorer,
    "tournament": TournamentScorer,
}


def scorer_of(mount: JudgeMount, client: ChatClient) -> Scorer:
    """The scorer of a mount."""
    return _SCORERS[mount.judge](client, mount)
