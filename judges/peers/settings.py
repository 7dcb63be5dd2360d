"""The settings of the peer judge."""

from __future__ import annotations

from judges import prompts
from judges.config.judge import JudgeSettings


class PeerJudgeSettings(JudgeSettings):
    """The settings that every judge has; `judge_system_prompt` is a system message that replaces the instructions."""

    def built_in_prompt(self) -> str:
        """The instructions in the user message, around its sections."""
        return prompts.load("peer")
