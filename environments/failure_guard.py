"""When a run gives up: nothing has worked so far, and what failed would fail again.

Guarantees: a run in which anything has worked never gives up by itself, however long its endpoints are away then.
"""

from __future__ import annotations

from typing import Any

from environments.rollouts.groups import JudgedGroup
from environments.rollouts.sources import NoTokens
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

    def sampled(self, error: EndpointError | NoTokens) -> None:
        """Note a group that could not be sampled.

        Raises:
            NothingSucceeds: it was one too many.
        """
        if isinstance(error, NoTokens) or not error.kind.retryable:
            self._note_refusal(why_unsampled(error))

    def judged(self, group: JudgedGroup[Any]) -> None:
        """Note a group that was judged, well or not.

        Raises:
            NothingSucceeds: its judge refused it, and it was one too many.
        """
        calls = [call for judgment in group.judgments for call in judgment.calls]
        if group.scores is None and calls and all(call.rejected for call in calls):
            self._note_refusal(calls[-1].error or "the judge refuses")
        elif group.scores is not None:
            self._any_success = True

    def _note_refusal(self, why: str) -> None:
        self._refused += 1
        if not self._any_success and self._refused >= HOPELESS_AFTER:
            raise NothingSucceeds(why)


def why_unsampled(error: EndpointError | NoTokens) -> str:
    """What went wrong with a group's completions."""
    return f"the policy at {error}" if isinstance(error, EndpointError) else f"the policy: {error}"


def why_unscored(group: JudgedGroup[Any]) -> str:
    """What went wrong with the first judgment of a group that failed."""
    return next((each.explanation for each in group.judgments if each.score is None and each.explanation), "no reason")
