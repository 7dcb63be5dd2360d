"""The settings of tournaments."""

from __future__ import annotations

from typing import ClassVar, Literal

from judges.arena.settings import ArenaJudgeSettings
from judges.config.fields import setting

Schedule = Literal["all", "swiss", "balanced", "circular"]


class TournamentSettings(ArenaJudgeSettings):
    """Which answers of a group meet, in which orders."""

    help_group: ClassVar[str] = "judge"

    schedule: Schedule = setting(
        "all",
        "Let these answers of a group meet. all: each pair. swiss: in each round those that stand next to each other. "
        "balanced: each answer the same number of others. circular: each its neighbours on a circle.",
    )
    schedule_rounds: int | None = setting(
        None,
        "Play this many rounds of swiss and balanced, in each of which every answer meets one other. If unset, the "
        "logarithm of the group's size to base 2, rounded up.",
        ge=1,
    )
    game_orders: Literal["both", "balanced"] = setting(
        "both",
        "Play each pair in both orders (both), or in one order, so that each answer is shown first as often as second "
        "(balanced).",
    )
