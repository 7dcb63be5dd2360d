"""Arena-Hard's judge: the win rate in both orders against a baseline, or a tournament of the responses."""

from __future__ import annotations

from judgegym.judges.arena.judge import ArenaCase, arena_judge
from judgegym.judges.core.group import GroupCase, GroupJudge
from judgegym.judges.scorers.groups import GroupScores, check_most, group_scores
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.scorer import ItemError, but_alone, unit_score
from judgegym.judges.scorers.settings import MOST_TOGETHER, ScorerSettings
from judgegym.judges.tournament.judge import tournament_judge
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class ArenaScorer:
    """The win rate over both orders against a baseline; without one, a tournament of the responses.

    A response is alone with a baseline, as in the benchmark; `tournament` is the judge that has it as one more player.
    """

    def __init__(self, client: ChatClient, settings: ScorerSettings) -> None:
        """Judge as the settings say.

        Raises:
            SettingsError: single responses are gathered, and its settings allow no tournament.
        """
        self._judge, self._settings = arena_judge(settings, client), settings
        self._tournament: GroupJudge | str
        try:
            self._tournament = tournament_judge(settings, client)
        except SettingsError as error:
            if settings.gathers:
                raise
            self._tournament = str(error)

    def check(self, item: Item) -> None:
        """Check that there is a baseline, or other responses to compare with, and not too many of them."""
        if _baseline(item) is not None:
            return
        if len(item.responses) < self.fewest(item):
            raise ItemError(
                "baseline: expected a baseline, or several responses to compare with each other"
                + but_alone(self._settings, item)
            )
        check_most(item, MOST_TOGETHER["arena_hard"])
        self._games()

    def compares(self, item: Item) -> bool:
        """Without a baseline, responses are compared with each other."""
        return _baseline(item) is None

    def fewest(self, item: Item) -> int:
        """Two."""
        return 2

    async def score(self, item: Item) -> list[ResponseScore]:
        """Against the baseline, or against each other."""
        baseline = _baseline(item)
        if baseline is not None:
            judgment = await self._judge.judge(ArenaCase(item.prompt, item.response, baseline))
            return [unit_score(judgment, _win_rate)]
        case = GroupCase(item.prompt, item.responses, numbers=item.numbers)
        return group_scores(item.responses, await self._games().judge(case))

    def start(self, item: Item, size: int) -> GroupScores:
        """Begin a tournament, which plays as responses arrive."""
        return GroupScores(self._games().start(GroupCase(item.prompt), size))

    def _games(self) -> GroupJudge:
        """The judge of a tournament.

        Raises:
            ItemError: the settings allow none.
        """
        if isinstance(self._tournament, str):
            raise ItemError(f"responses: without a baseline they play a tournament: {self._tournament}")
        return self._tournament


def _baseline(item: Item) -> str | None:
    """The baseline of an item, or its reference, for protocols without a field for a baseline."""
    return item.reference if item.baseline is None else item.baseline


def _win_rate(score: float) -> float:
    """A row's reward from −1 to 1 as a win rate from 0 to 1."""
    return (score + 1.0) / 2.0
