"""The settings of the Arena-Hard judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.prompt_layout import PromptLayoutSettings
from judgegym.judges.config.reask import ReaskSettings
from judgegym.judges.parsing.verdicts import ARENA_LABELS, ArenaLabel

ArenaProtocol = Literal["three_way", "arena_hard_v0.1"]

STRONG_WEIGHT: Mapping[ArenaProtocol, int] = {"three_way": 1, "arena_hard_v0.1": 3}
"""How many times a strong win or loss (`>>`) counts."""

LABELS: Mapping[ArenaProtocol, Sequence[ArenaLabel]] = {
    "three_way": ("A>B", "A=B", "B>A"),
    "arena_hard_v0.1": ARENA_LABELS,
}
"""The labels that a judge is asked for; others that it writes as text are read, too."""

PROMPTS: Mapping[ArenaProtocol, str] = {
    "three_way": "arena_hard_three_way",
    "arena_hard_v0.1": "arena_hard_v0_1",
}
"""The built-in system prompt of each protocol."""


class ArenaJudgeSettings(PromptLayoutSettings, ReaskSettings):
    """How two answers are compared."""

    help_group: ClassVar[str] = "judge"

    judge_protocol: ArenaProtocol = setting(
        "three_way",
        "Choose the labels, their weights and the built-in prompt. three_way: A>B, A=B, B>A. arena_hard_v0.1: also "
        "A>>B and B>>A, which count three times. Its built-in prompt is a rewording of the published one; to compare "
        "with published numbers set judge_system_prompt=@file to the published prompt.",
    )

    def built_in_prompt(self) -> str:
        """The protocol's system prompt."""
        return prompts.load(PROMPTS[self.judge_protocol])
