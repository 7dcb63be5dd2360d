"""Substitutes for a missing score, and the errors that end a request.

A score is missing if the judge failed or there was nothing to judge. Each error has a status code,
a type and a message for the client.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judgegym.judges.core.tasks import BUDGET_SPENT, JudgeTask, ResponseJudgment


class RequestError(Exception):
    """An error that ends a request with a status code, a type and a message."""

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
            message: what is wrong and what was expected.
            is_unread: part of the body stays unread, so the connection must close.
            headers: headers of the response, besides those of every error of this code.
        """
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.message = message
        self.is_unread = is_unread
        self.headers: Mapping[str, str] = headers or {}
        self.others: tuple[float | None, ...] = ()
        """The other scores of a single response's group, if known; `None` for an empty response."""


class OverloadError(RequestError):
    """The limit of pending judgments is reached."""

    def __init__(self, message: str = "too many judgments are pending; retry") -> None:
        """Describe the error."""
        super().__init__(503, "overloaded", message)


class NotYetError(RequestError):
    """The result is not ready yet, and a repeated request will find it; the message says why."""

    def __init__(self, kind: str, message: str, retry_after_s: int) -> None:
        """Describe the error; the client may retry after `retry_after_s` seconds."""
        super().__init__(503, kind, message, headers={"Retry-After": str(retry_after_s)})


OnFailure: TypeAlias = Literal["sidecar", "http", "score"]
"""How a trainer learns of a failed judge.

`sidecar`: by fields beside the reward where the trainer reads any (NeMo Gym), else by HTTP 503
without a reward. `http`: always by HTTP 503. `score`: by a number where the trainer reads no field.
"""
JUDGE_FAILED = "judge_failed"
UNUSABLE = "unusable"
"""Error type of a request that no judge can score, however often it is sent."""


@dataclass(frozen=True, slots=True)
class FailureAnswers:
    """The substitutes for missing scores.

    Attributes:
        fallback_score: sent for a failed judge in protocols that need a number.
        invalid_completion_score: sent for an empty completion, which is not judged.
        on_failure: how the trainer learns of a failed judge.
    """

    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0
    on_failure: OnFailure = "sidecar"

    def check(self, tasks: Sequence[JudgeTask]) -> None:
        """Check before judging that every task has something to judge, or a number instead.

        Raises:
            ValueError: a task has nothing to judge; retrying cannot help.
        """
        fault = next((task.fault for task in tasks if task.fault is not None), None)
        if fault is not None and self.on_failure != "score":
            raise ValueError(fault)

    def choose_score(self, result: ResponseJudgment) -> float:
        """Return the score, or the number in its place.

        Raises:
            RequestError: there is no score, and no number may replace it.
        """
        if result.score is not None:
            return result.score
        if result.is_invalid:
            return self.invalid_completion_score
        if (
            self.on_failure == "score" and result.status != BUDGET_SPENT
        ):  # a spent budget is no judge failure to train on
            return self.fallback_score
        raise make_failure_error(result)

    def placeholder(self, others: Sequence[float | None]) -> float:
        """Return the number for a failed judge beside a mask: the mean of its group's other scores.

        Trainers that mask a sample still count its reward in its group's baseline, which the mean
        does not move. Without other scores it is the fallback.
        """
        if not others:
            return self.fallback_score
        return statistics.fmean(
            self.invalid_completion_score if score is None else score for score in others
        )


def make_failure_error(result: ResponseJudgment) -> RequestError:
    """Return the HTTP error for a failure: 503 if a retry may succeed, else 422 or 402."""
    if result.status == BUDGET_SPENT:
        return RequestError(402, BUDGET_SPENT, result.explanation)
    if result.is_final:
        return RequestError(422, UNUSABLE, result.explanation)
    return RequestError(503, JUDGE_FAILED, f"{result.status}: {result.explanation}")
