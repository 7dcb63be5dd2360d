"""Budgets of the server: who is refused, in which form, and what is counted."""

from __future__ import annotations

import pytest

from judgegym.judges.core.tasks import BUDGET_SPENT, make_failure
from judgegym.llm.errors import SettingsError
from judgegym.server.answers import FailureAnswers, RequestError
from judgegym.server.budgets import ClientBudget, ServerBudgets

SPENT = make_failure("the budget for a of 2 calls is spent", BUDGET_SPENT, is_final=True)


def test_each_client_has_its_budget_within_the_one_in_all() -> None:
    named = {"a": ClientBudget(calls=2), "*": ClientBudget(usd=3.0)}
    budgets = ServerBudgets(ClientBudget(calls=9), named, ["a", "b", "c"])
    a, b, c = (budgets.find_budget(name) for name in ("a", "b", "c"))
    assert a is not None and b is not None and b is not c
    assert a.within is b.within is budgets.whole is not None
    assert budgets.whole.limits_dollars  # so that prices are checked when the server starts
    assert ServerBudgets(ClientBudget(), {}, ["a"]).whole is None


def test_a_client_without_a_token_is_an_error() -> None:
    with pytest.raises(SettingsError, match="no token 'x'; expected one of a, \\*"):
        ServerBudgets(ClientBudget(), {"x": ClientBudget(calls=1)}, ["a"])


@pytest.mark.parametrize("how", ["sidecar", "http", "score"])
def test_a_spent_budget_is_a_final_error_and_never_a_score(how: str) -> None:
    with pytest.raises(RequestError) as raised:
        FailureAnswers(fallback_score=0.5, on_failure=how).choose_score(SPENT)  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.kind) == (402, BUDGET_SPENT)
