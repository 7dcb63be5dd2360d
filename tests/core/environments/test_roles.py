"""The role of the policy."""

from __future__ import annotations

import pytest

from judgegym.environments.roles import RoleConfig


@pytest.mark.parametrize(
    ("given", "role", "policy_is_judge"),
    [("policy", "policy", False), ("respondent", "policy", False), ("judge", "judge", True)],
)
def test_role_of_a_policy_that_answers_has_its_earlier_name_too(
    given: str, role: str, policy_is_judge: bool
) -> None:
    config = RoleConfig(role=given)  # type: ignore[arg-type]  # a name of the role, as a user writes it
    assert (config.role, config.policy_is_judge) == (role, policy_is_judge)


def test_policy_that_judges_may_give_a_short_verdict_unless_told_otherwise() -> None:
    assert RoleConfig(role="judge").min_response_length == 0
    assert RoleConfig(role="judge", min_response_length=5).min_response_length == 5
    assert RoleConfig().min_response_length == 10
