"""The tournament: pairwise games among the answers of a group, and a score for each from all of them.

The settings say which answers meet (`judgegym.judges.tournament.schedule`); a Bradley–Terry fit with ties and a
position term (`judgegym.statistics.bradley_terry`) turns the results into strengths. A score is the probability to win
against the group's mean, or against the anchor if there is one.
"""

from __future__ import annotations

from judgegym.judges.config.extras import require
from judgegym.judges.core.group import GroupCase, GroupInProgress, GroupJudge, GroupJudgment
from judgegym.judges.tournament.game import PairJudge, TournamentSettings, pair_judge
from judgegym.judges.tournament.progress import TournamentInProgress
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class TournamentJudge:
    """Judges groups by games between two of their answers."""

    def __init__(self, games: PairJudge, settings: TournamentSettings) -> None:
        """Let `games` decide each game.

        Raises:
            SettingsError: the settings ask for self-critique, or the extra `statistics` is not installed.
        """
        if settings.judge_critique_rounds:
            raise SettingsError(
                f"judge_critique_rounds is {settings.judge_critique_rounds}: a judge of groups has no self-critique; "
                "expected 0"
            )
        require("statistics")
        self._games = games
        self._settings = settings

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""
        return self._games.client

    async def judge(self, case: GroupCase) -> GroupJudgment:
        """Judge all answers of a case."""
        group = self.start(case, len(case.answers))
        for answer in case.answers:
            group.add(answer)
        return await group.close()

    def start(self, case: GroupCase, size: int) -> GroupInProgress:
        """Begin a group of a case without answers, of which at most `size` will come."""
        return TournamentInProgress(case, size, self._games, self._settings)


def tournament_judge(settings: TournamentSettings, client: ChatClient) -> GroupJudge:
    """The judge that the settings ask for.

    Raises:
        SettingsError: the settings ask for self-critique, or the extra `statistics` is not installed.
    """
    return TournamentJudge(pair_judge(settings, client), settings)
