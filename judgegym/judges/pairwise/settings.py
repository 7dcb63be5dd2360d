"""The settings of the choice judge."""

from __future__ import annotations

from judgegym.judges import prompts
from judgegym.judges.config.judge import JudgeSettings


class ChoiceJudgeSettings(JudgeSettings):
    """The settings that every judge has."""

    def built_in_prompt(self) -> str:
        """The system prompt, with placeholders for the number of answers and the labels."""
        return prompts.load("choice")
