"""When training gives up: ten groups that were refused, and not one success before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from environments.failure_guard import HOPELESS_AFTER, FailureGuard, NothingSucceeds, why_unscored
from environments.rollouts.groups import JudgedGroup
from environments.rollouts.sources import NoTokens
from judges.llm.errors import EndpointError, FailureKind
from tests.environments import rollouts_of

REJECTED = EndpointError(FailureKind.REJECTED, endpoint="http://x/v1", answer="no such key", status=401)
DOWN = EndpointError(FailureKind.CONNECTION, endpoint="http://x/v1", answer="refused")


def unjudged(*, rejected: bool) -> JudgedGroup[Any]:
    """A group whose judge failed for all."""
    group = rollouts_of.group([None, None])
    calls = (replace(group.judgments[0].calls[0], rejected=rejected, error="the judge at http://y/v1: no such model"),)
    return replace(group, judgments=tuple(replace(each, calls=calls) for each in group.judgments))


@pytest.mark.parametrize("error", [REJECTED, NoTokens("no ids")])
def test_a_policy_that_refuses(error: EndpointError | NoTokens) -> None:
    prospects = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        prospects.sampled(error)
    with pytest.raises(NothingSucceeds, match=r"the policy.* no"):
        prospects.sampled(error)


def test_a_judge_that_refuses() -> None:
    prospects = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        prospects.judged(unjudged(rejected=True))
    with pytest.raises(NothingSucceeds, match="the judge at http://y/v1: no such model"):
        prospects.judged(unjudged(rejected=True))


def test_both_count_together() -> None:
    prospects = FailureGuard()
    for _ in range(HOPELESS_AFTER - 1):
        prospects.judged(unjudged(rejected=True))
    with pytest.raises(NothingSucceeds):
        prospects.sampled(REJECTED)


def test_what_may_work_later_is_waited_for() -> None:
    prospects = FailureGuard()
    for _ in range(10 * HOPELESS_AFTER):
        prospects.sampled(DOWN)
        prospects.judged(unjudged(rejected=False))


@pytest.mark.parametrize("rewards", [[0.0, 1.0], [1.0, 1.0], [None, 0.5, 0.5]])
def test_what_has_worked_once_goes_on(rewards: list[float | None]) -> None:
    prospects = FailureGuard()
    prospects.judged(rollouts_of.group(rewards))
    for _ in range(10 * HOPELESS_AFTER):
        prospects.sampled(REJECTED)
        prospects.judged(unjudged(rejected=True))


def test_the_reason_is_that_of_the_first_that_failed() -> None:
    group = rollouts_of.group([0.0, None])
    judgments = (replace(group.judgments[0], explanation="fine"), replace(group.judgments[1], explanation="no key"))
    assert why_unscored(replace(group, judgments=judgments)) == "no key"
    assert why_unscored(rollouts_of.group([0.0])) == "no reason"
