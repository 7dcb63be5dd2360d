"""The settings of tournaments."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from judgegym.judges import prompts
from judgegym.judges.arena.settings import ArenaJudgeSettings
from judgegym.judges.config.fields import setting

Schedule = Literal["all", "swiss", "balanced", "circular"]
WITH_ROUNDS: tuple[Schedule, ...] = ("swiss", "balanced")
"""The schedules whose rounds `schedule_rounds` counts."""
GameOrders = Literal["both", "balanced"]
GameKind = Literal["arena_hard", "choice"]


class TournamentSettings(ArenaJudgeSettings):
    """Which answers of a group meet, in which orders."""

    help_group: ClassVar[str] = "judge"

    tournament_game: GameKind = setting(
        "arena_hard",
        "Decide each game by this judge. arena_hard: labels with ties, and strong ones in arena_hard_v0.1. choice: the "
        "letter of the better answer, without ties.",
    )
    schedule: Schedule = setting(
        "all",
        "Let these answers of a group meet. all: each pair (8 answers in both orders: 56 calls). swiss: in each round "
        "those that stand next to each other (24). balanced: each answer the same number of others (24). circular: "
        "each its neighbours on a circle (16).",
    )
    schedule_rounds: int | None = setting(
        None,
        "Play this many rounds of swiss and balanced, in each of which every answer meets one other. If unset, the "
        "logarithm of the group's size to base 2, rounded up, and twice as many if each pair has one game.",
        ge=1,
    )
    game_orders: GameOrders = setting(
        "both",
        "Play each pair in both orders (both), or, for half of the calls with schedule all and circular, in one order, "
        "so that each answer is shown first as often as second (balanced).",
    )

    def rounds_of(self, players: int) -> int:
        """The rounds of swiss and balanced: as many games in either of `game_orders`, none of which is played twice."""
        once = self.game_orders == "balanced"
        rounds = self.schedule_rounds or math.ceil(math.log2(max(players, 2))) * (2 if once else 1)
        different = players - 1 + players % 2  # with an odd number, one has a bye in each
        return min(rounds, different * (2 if once and self.schedule == "swiss" else 1))

    def built_in_prompt(self) -> str:
        """The system prompt of the judge of games."""
        return prompts.load("choice") if self.tournament_game == "choice" else super().built_in_prompt()
