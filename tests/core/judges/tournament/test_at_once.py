"""Games of a large group: all are played, and no more prompts are in memory than a bounded number."""

from __future__ import annotations

import asyncio
from typing import Any

from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.tournament.progress import MOST_GAMES_AT_ONCE, TournamentGroupJudge
from judgegym.judges.tournament.schedule import GameResult, TournamentSettings


class Counting:
    """A judge of games that counts how many are under way."""

    client: Any = None

    def __init__(self) -> None:
        self.now = self.most = self.played = 0

    async def play(self, task: JudgeTask, first: str, second: str, *, name: str) -> GameResult:
        self.now += 1
        self.played += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return GameResult(float(first < second))

    def count_suspects(self, task: JudgeTask, answer: str) -> int:
        return 0


async def test_games_of_a_large_group_are_played_a_bounded_number_at_a_time() -> None:
    games = Counting()
    answers = tuple(f"answer {number:02}" for number in range(24))
    judgment = await TournamentGroupJudge(TournamentSettings(), games.client, games=games).judge(
        JudgeTask("Which?", answers)
    )
    scores = [member.score or 0.0 for member in judgment.members]
    assert scores == sorted(scores, reverse=True)
    assert games.played == 24 * 23
    assert games.most == MOST_GAMES_AT_ONCE
