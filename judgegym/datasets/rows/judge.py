"""The settings of a judge of rows."""

from __future__ import annotations

from typing import ClassVar

from judgegym.judges.scorers.settings import ScorerSettings


class DatasetJudgeSettings(ScorerSettings):
    """The judge of a data set."""

    how_to_gather: ClassVar[str] = (
        "--group_by COLUMN judges rows together that have one response each, --responses_per_prompt N asks for several"
    )

    @property
    def units_in_flight(self) -> int:
        """So many units are in progress at once: two for each request of the judge, so that it never waits for one."""
        return 2 * self.judge_max_concurrency
