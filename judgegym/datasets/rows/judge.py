"""The settings of a judge of rows."""

from __future__ import annotations

from typing import ClassVar

from judges.scorers.settings import ScorerSettings


class DatasetJudgeSettings(ScorerSettings):
    """The judge of a data set."""

    how_to_gather: ClassVar[str] = (
        "--group_by COLUMN judges rows together that have one response each, --responses_per_prompt N asks for several"
    )
