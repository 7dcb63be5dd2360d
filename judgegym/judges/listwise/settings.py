"""The settings of the listwise judge."""

from __future__ import annotations

from typing import ClassVar

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.reask import ReaskSettings


class ListwiseJudgeSettings(ReaskSettings):
    """How the answers of a group are scored in one call."""

    help_group: ClassVar[str] = "judge"

    listwise_orders: int = setting(
        1,
        "Show the answers of a group in this many orders, one call each. 2: also in the reverse order; the scores are "
        "averaged, so that a preference for early or late answers cancels out.",
        ge=1,
        le=2,
    )
    judge_max_input_tokens: int | None = setting(
        None,
        "Split a group whose prompt has more tokens than this into several calls that share one answer, by which their "
        "scores are brought together. If unset, a group is one call for each order.",
        ge=256,
    )

    def built_in_prompt(self) -> str:
        """The instructions."""
        return prompts.load("listwise")
