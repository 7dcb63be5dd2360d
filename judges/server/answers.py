"""What a caller is sent where there is no score: the judge failed, or there was nothing to judge."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges.scorers.items import ResponseScore
from judges.server.errors import RequestError

OnFailure: TypeAlias = Literal["sidecar", "http", "score"]
"""How a trainer is told of a failed judge: by fields beside the reward where it reads any (NeMo Gym), else by HTTP 503
without a reward (`sidecar`); always by HTTP 503 (`http`); or by a number, where it reads no field (`score`)."""
JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True, slots=True)
class FailureAnswers:
    """What is sent where there is no score.

    Attributes:
        fallback_score: the number for a failed judge, in protocols that need a number.
        invalid_completion_score: the number for an empty completion, which no judge is asked about.
        on_failure: how the trainer is told.
    """

    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0
    on_failure: OnFailure = "sidecar"

    def number(self, result: ResponseScore) -> float:
        """The score, or the number in its place.

        Raises:
            RequestError: the judge failed, and no number is to stand for that.
        """
        if result.score is not None:
            return result.score
        if result.is_invalid:
            return self.invalid_completion_score
        if self.on_failure == "score":
            return self.fallback_score
        raise RequestError(503, JUDGE_FAILED, f"{result.status}: {result.explanation}")

    def placeholder(self, result: ResponseScore) -> float:
        """The number for a failed judge beside a flag that masks it: the mean of the others of its group, if known.

        Trainers that mask a sample still count its reward in the baseline of its group: the mean does not move that.
        """
        if not result.others:
            return self.fallback_score
        return statistics.fmean(self.invalid_completion_score if each is None else each for each in result.others)
