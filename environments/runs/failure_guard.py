"""When a run gives up: nothing has worked so far, and what failed would fail again.

Guarantees: a run in which anything has worked never gives up by itself, however long its endpoints are away then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judges.core.judgment import Judgment
from judges.llm.errors import EndpointError, JudgeGymError

HOPELESS_AFTER = 10
"""So many failures, and not one success, end a run."""


class NothingSucceeds(JudgeGymError):
    """The first tries all failed; the message is the last one's error."""


class FailureGuard:
    """Whether training can come to anything: counts the groups that an endpoint refused before the first success.

    A wrong key, a model that does not exist, an endpoint without the tokens that it was asked for: without an end, the
    other endpoint would be paid for groups that nobody can use.
    """

    def __init__(self) -> None:
        """Nothing has happened."""
        self._any_success = False
        self._refused = 0

    def record_unsampled(self, error: JudgeGymError) -> None:
        """Note a group that could not be sampled.

        Raises:
            NothingSucceeds: it was one too many.
        """
        if not is_retryable(error):
            self._record_refusal(why_unsampled(error))

    def record_judged(self, judgments: Sequence[Judgment[Any]], *, has_scores: bool) -> None:
        """Note a group that was judged, well or not.

        Raises:
            NothingSucceeds: its judge refused it, and it was one too many.
        """
        calls = [call for judgment in judgments for call in judgment.calls]
        if has_scores:
            self._any_success = True
        elif calls and all(call.rejected for call in calls):
            self._record_refusal(calls[-1].error or "the judge refuses")

    def _record_refusal(self, why: str) -> None:
        self._refused += 1
        if not self._any_success and self._refused >= HOPELESS_AFTER:
            raise NothingSucceeds(why)


def is_retryable(error: JudgeGymError) -> bool:
    """Whether sampling that failed may work later."""
    return isinstance(error, EndpointError) and error.kind.retryable


def why_unsampled(error: JudgeGymError) -> str:
    """What went wrong with a group's completions."""
    return f"the policy at {error}" if isinstance(error, EndpointError) else f"the policy: {error}"


def why_unscored(judgments: Sequence[Judgment[Any]]) -> str:
    """What went wrong with the first judgment of a group that failed."""
    failed = (judgment for judgment in judgments if judgment.score is None and judgment.explanation)
    return next((judgment.explanation for judgment in failed), "no reason")
