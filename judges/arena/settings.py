"""The settings of the Arena-Hard judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from judges import prompts
from judges.config.fields import setting
from judges.config.judge import JudgeSettings

ArenaProtocol = Literal["three_way", "arena_hard_v0.1"]

STRONG_WEIGHT: Mapping[ArenaProtocol, int] = {"three_way": 1, "arena_hard_v0.1": 3}
"""How often a strong win or loss (`>>`) counts."""

PROMPTS: Mapping[ArenaProtocol, str] = {
    "three_way": "arena_hard_three_way",
    "arena_hard_v0.1": "arena_hard_v0_1",
}
"""The built-in system prompt of each protocol."""


class ArenaJudgeSettings(JudgeSettings):
    """How two answers are compared."""

    help_group: ClassVar[str] = "judge"

    judge_protocol: ArenaProtocol = setting(
        "three_way",
        "Choose labels, their weights and the built-in prompt. three_way: A>B, A=B, B>A. arena_hard_v0.1: with >> as "
        "well, which counts three times; its built-in prompt asks for the same as the published one in other words, so "
        "numbers to compare with published ones need that prompt: judge_system_prompt=@file.",
    )
    judge_reask: int = setting(1, "Ask a judge that gave no verdict so many times to finish with one.", ge=0)

    def built_in_prompt(self) -> str:
        """The protocol's system prompt."""
        return prompts.load(PROMPTS[self.judge_protocol])
