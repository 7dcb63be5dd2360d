"""How often a judge whose answer has no verdict is asked again."""

from __future__ import annotations

from typing import ClassVar

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings


class ReaskSettings(JudgeSettings):
    """The settings of a judge that is asked again in the same conversation."""

    help_group: ClassVar[str] = "judge"

    judge_reask: int = setting(
        1,
        "Ask a judge whose answer has no verdict again, in the same conversation, at most this many times.",
        ge=0,
    )
