"""The settings of the peer judge."""

from __future__ import annotations

from judgegym.judges import prompts
from judgegym.judges.config.prompt_layout import PromptLayoutSettings


class PeerJudgeSettings(PromptLayoutSettings):
    """The settings that every judge has; `judge_system_prompt` is a system message that replaces the instructions.

    The layout is that of a critique alone: published is the specification's; in `shared_first` a critique begins as the
    prompt of the evaluation does. That prompt's own order is ours, and has the response last in both.
    """

    def built_in_prompt(self) -> str:
        """The instructions in the user message, around its sections."""
        return prompts.load("peer")
