"""When training gives up: ten groups that were refused, and not one success before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from judgegym.engine.loop import HOPELESS_AFTER, FailureGuard, NothingSucceeds, why_unscored
from judgegym.environments.rollouts.groups import NoTokens
from judgegym.llm.errors import EndpointError, FailureKind
from tests.core.environments import rollouts_of

REJECTED = EndpointError(FailureKind.REJECTED, endpoint="http://x/v1", answer="no such key", status=401)
DOWN = EndpointError(FailureKind.BROKEN, endpoint="http://x/v1", answer="refused")


def record(guard: FailureGuard, rewards: Sequence[float | None], *, rejected: bool = False) -> None:
    """Note a group with these rewards; `None` where the judge failed."""
    group = rollouts_of.group(rewards)
    calls = (replace(group.judgments[0].calls[0], rejected=rejected, error="the judge at http://y/v1: no such model"),)
    judgments = [replace(judgment, calls=calls) for judgment in group.judgments]
    guard.record_judged(judgments, has_scores=group.scores is not None)


@pytest.mark.parametrize("error", [REJECTED, NoTokens("no ids")])
def test_a_policy_that_refuses(error: EndpointError | NoTokens) -> None:
    guard = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        guard.record_unsampled(error)
    with pytest.raises(NothingSucceeds, match=r"the policy.* no"):
        guard.record_unsampled(error)


def test_a_judge_that_refuses() -> None:
    guard = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        record(guard, [None, None], rejected=True)
    with pytest.raises(NothingSucceeds, match="the judge at http://y/v1: no such model"):
        record(guard, [None, None], rejected=True)


def test_both_count_together() -> None:
    guard = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        record(guard, [None, None], rejected=True)
    with pytest.raises(NothingSucceeds):
        guard.record_unsampled(REJECTED)


def test_what_may_work_later_is_waited_for() -> None:
    guard = FailureGuard()
    for _ in range(10 * HOPELESS_AFTER):
        guard.record_unsampled(DOWN)
        record(guard, [None, None], rejected=False)


@pytest.mark.parametrize("rewards", [[0.0, 1.0], [1.0, 1.0], [None, 0.5, 0.5]])
def test_what_has_worked_once_goes_on(rewards: list[float | None]) -> None:
    guard = FailureGuard()
    record(guard, rewards)
    for _ in range(10 * HOPELESS_AFTER):
        guard.record_unsampled(REJECTED)
        record(guard, [None, None], rejected=True)


def test_the_reason_is_that_of_the_first_that_failed() -> None:
    group = rollouts_of.group([0.0, None])
    judgments = (replace(group.judgments[0], explanation="fine"), replace(group.judgments[1], explanation="no key"))
    assert why_unscored(judgments) == "no key"
    assert why_unscored(rollouts_of.group([0.0]).judgments) == "no reason"
