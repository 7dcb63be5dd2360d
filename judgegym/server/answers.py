"""What a caller is sent where there is no score: the judge failed, or there was nothing to judge.

The errors that end a request, each with a status code, a type and a message for the caller.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judgegym.judges.core.tasks import BUDGET_SPENT, JudgeTask, ResponseJudgment


class RequestError(Exception):
    """Answer the request with an error: status code, type and message."""

    def __init__(
        self,
        code: int,
        kind: str,
        message: str,
        *,
        is_unread: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the error.

        Args:
            code: the status code.
            kind: the error's type, for programs.
            message: what was wrong and what was expected.
            is_unread: a part of the body stays unread, so that the connection must close.
            headers: headers of the response, beside those that every error of this code has.
        """
        super().__init__(message)
        self.code, self.kind, self.message, self.is_unread = code, kind, message, is_unread
        self.headers: Mapping[str, str] = headers or {}
        self.others: tuple[float | None, ...] = ()
        """The scores of the others of the group, of a single response whose group is known; `None` for an empty one."""


class OverloadError(RequestError):
    """The limit of pending judgments is reached."""

    def __init__(self, message: str = "too many judgments are under way; try again") -> None:
        """Say so."""
        super().__init__(503, "overloaded", message)


class NotYetError(RequestError):
    """There is no result yet, and whoever asks again finds it; the message says why."""

    def __init__(self, kind: str, message: str, retry_after_s: int) -> None:
        """Describe the error, and say after how many seconds to ask again."""
        super().__init__(503, kind, message, headers={"Retry-After": str(retry_after_s)})


OnFailure: TypeAlias = Literal["sidecar", "http", "score"]
"""How a trainer is told of a failed judge: by fields beside the reward where it reads any (NeMo Gym), else by HTTP 503
without a reward (`sidecar`); always by HTTP 503 (`http`); or by a number, where it reads no field (`score`)."""
JUDGE_FAILED = "judge_failed"
UNUSABLE = "unusable"
"""The type of the error of a request that no judge can score, however often it is sent."""


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

    def check(self, tasks: Sequence[JudgeTask]) -> None:
        """Check, before a judge is asked, that there is something to judge, or a number stands for a failure.

        Raises:
            ValueError: there is not; to send the request again would not help.
        """
        fault = next((task.fault for task in tasks if task.fault is not None), None)
        if fault is not None and self.on_failure != "score":
            raise ValueError(fault)

    def choose_score(self, result: ResponseJudgment) -> float:
        """Return the score, or the number in its place.

        Raises:
            RequestError: there is none, and no number is to stand for that.
        """
        if result.score is not None:
            return result.score
        if result.is_invalid:
            return self.invalid_completion_score
        if (
            self.on_failure == "score" and result.status != BUDGET_SPENT
        ):  # which is no failure of a judge to train with
            return self.fallback_score
        raise make_failure_error(result)

    def placeholder(self, others: Sequence[float | None]) -> float:
        """The number for a failed judge beside a flag that masks it: the mean of the others of its group, if known.

        Trainers that mask a sample still count its reward in the baseline of its group: the mean
            does not move that.
        """
        if not others:
            return self.fallback_score
        return statistics.fmean(
            self.invalid_completion_score if score is None else score for score in others
        )


def make_failure_error(result: ResponseJudgment) -> RequestError:
    """Return the error that tells of a failure by HTTP: 503 if the same request may succeed later, else 422 or 402."""
    if result.status == BUDGET_SPENT:
        return RequestError(402, BUDGET_SPENT, result.explanation)
    if result.is_final:
        return RequestError(422, UNUSABLE, result.explanation)
    return RequestError(503, JUDGE_FAILED, f"{result.status}: {result.explanation}")
