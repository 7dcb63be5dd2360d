"""The settings of the peer judge."""

from __future__ import annotations

from judges import prompts
from judges.config.judge import JudgeSettings


class PeerJudgeSettings(JudgeSettings):
    """What every judge has. `judge_system_prompt` is a system message in place of the built-in instructions."""

    def built_in_prompt(self) -> str:
        """The instructions around the sections of the one user message."""
        return prompts.load("peer")
