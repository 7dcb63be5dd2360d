"""When training gives up: ten groups that were refused, and not one success before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from judgegym.engine.loop import FAILURE_LIMIT, FailureGuard, NothingSucceeds, explain_unscored
from judgegym.environments.rollouts.groups import MissingTokensError
from judgegym.llm.errors import EndpointError, FailureKind
from tests.core.environments import rollouts_of

REJECTED = EndpointError(
    FailureKind.REJECTED, endpoint="http://x/v1", answer="no such key", status=401
)
DOWN = EndpointError(FailureKind.BROKEN, endpoint="http://x/v1", answer="refused")


def record(guard: FailureGuard, rewards: Sequence[float | None], *, rejected: bool = False) -> None:
    """Note a group with these rewards; `None` where the judge failed."""
    group = rollouts_of.group(rewards)
    calls = (
        replace(
            group.judgments[0].calls[0],
            rejected=rejected,
            error="the judge at http://y/v1: no such model",
        ),
    )
    judgments = [replace(judgment, calls=calls) for judgment in group.judgments]
    guard.record_judged(judgments, has_scores=group.scores is not None)


FAILED = [None, None]


@pytest.mark.parametrize(
    ("judged", "error", "is_rejected", "reason"),
    [
        ([], REJECTED, False, "the policy.* no"),
        ([], MissingTokensError("no ids"), False, "the policy.* no"),
        ([FAILED], None, True, "the judge at http://y/v1: no such model"),
        ([FAILED], REJECTED, True, "no such"),
        ([FAILED], DOWN, False, None),
        ([[0.0, 1.0], FAILED], REJECTED, True, None),
        ([[1.0, 1.0], FAILED], REJECTED, True, None),
        ([[None, 0.5, 0.5], FAILED], REJECTED, True, None),
    ],
)
def test_it_gives_up_after_ten_refusals_in_all_unless_something_worked_or_may_work_later(
    judged: list[list[float | None]],
    error: EndpointError | MissingTokensError | None,
    is_rejected: bool,
    reason: str | None,
) -> None:
    guard, refused = FailureGuard(), 0
    with nullcontext() if reason is None else pytest.raises(NothingSucceeds, match=reason):
        for _ in range(10 * FAILURE_LIMIT):
            for rewards in judged:
                refused += 1
                record(guard, rewards, rejected=is_rejected)
            if error is not None:
                refused += 1
                guard.record_unsampled(error)
    assert reason is None or refused == FAILURE_LIMIT


def test_the_reason_is_that_of_the_first_that_failed() -> None:
    group = rollouts_of.group([0.0, None])
    judgments = (
        replace(group.judgments[0], explanation="fine"),
        replace(group.judgments[1], explanation="no key"),
    )
    assert explain_unscored(judgments) == "no key"
    assert explain_unscored(rollouts_of.group([0.0]).judgments) == "no reason"
