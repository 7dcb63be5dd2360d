"""What a caller is sent where there is no score: the judge failed, or there was nothing to judge."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges.scorers.items import ResponseScore

OnFailure: TypeAlias = Literal["sidecar", "http"]
"""How NeMo Gym's `/verify` tells of a failed judge: by fields of the row, or by HTTP 503 without a reward."""


@dataclass(frozen=True, slots=True)
class FailureAnswers:
    """What is sent where there is no score.

    Attributes:
        fallback_score: the number for a failed judge, in protocols that need a number.
        invalid_completion_score: the number for an empty completion, which no judge is asked about.
        on_failure: how NeMo Gym is told.
    """

    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0
    on_failure: OnFailure = "sidecar"

    def number(self, result: ResponseScore) -> float:
        """The score, or the number in its place."""
        if result.score is not None:
            return result.score
        return self.invalid_completion_score if result.is_invalid else self.fallback_score

    def placeholder(self, result: ResponseScore) -> float:
        """The number for a failed judge beside a flag that masks it: the mean of the others of its group, if known.

        Trainers that mask a sample still count its reward in the baseline of its group: the mean does not move that.
        """
        if not result.others:
            return self.fallback_score
        return statistics.fmean(self.invalid_completion_score if each is None else each for each in result.others)
