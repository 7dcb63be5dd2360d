"""A spent budget ends every kind of judge: with no judgment, and nothing that was paid for is lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import JudgeKind
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget, Expense
from judgegym.llm.errors import BudgetError
from judgegym.llm.ledger import record_calls
from judgegym.llm.usage import Prices
from tests.core.judges.scorers.kinds import ITEMS, KINDS, settings_of, verdict
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

SEVERAL_CALLS = ("aspect", "listwise", "jury", "steps")
"""Kinds that have their calls at once in ways of their own: votes, orders, members and steps."""


def resumed(budget: Budget, before: Expense) -> Budget:
    """The budget of a run of which an earlier part has spent something."""
    budget.begin_after(before)
    return budget


async def judged(
    path: Path, endpoint: ScriptedEndpoint, kind: JudgeKind, calls: int | None, *, retries: int = 0
) -> Sequence[ResponseJudgment] | str:
    """The scores of one part of a run with this budget, or why it ended; the ledger knows what was spent before."""
    settings = settings_of(kind, judge_base_url=endpoint.base_url, judge_max_retries=retries)
    run = RunDirectory(path, config={}, matters={}, resume=True)
    with closing(run), closing(CallLedger(run, finished=(), keep_texts=True)) as ledger:
        budget = resumed(
            Budget(calls=calls),
            ledger.earlier.price_usage({settings.judge_model_name: Prices(1.0, 1.0)}),
        )
        async with ChatClient(settings.chat_settings(retry_delay=0.0), budget=budget) as client:
            with record_calls(ledger.row("row-1")):
                try:
                    return await open_judge(settings, client).score(ITEMS[kind])
                except BudgetError as error:
                    return str(error)


@pytest.mark.slow("tournament")  # its model of strengths is imported
@pytest.mark.parametrize("kind", KINDS)
async def test_parts_of_a_run_with_growing_budgets_are_as_one_without(
    tmp_path: Path, kind: JudgeKind
) -> None:
    async with ScriptedEndpoint(verdict) as endpoint:
        whole = await judged(tmp_path / "whole", endpoint, kind, None)
    assert not isinstance(whole, str) and not any(result.score is None for result in whole)
    needed = len(endpoint.requests)

    async with ScriptedEndpoint(verdict) as endpoint:
        for calls in range(needed):
            assert await judged(tmp_path / "parts", endpoint, kind, calls) == (
                f"the budget of {calls} call{'s' * (calls != 1)} is spent"
            )
            assert len(endpoint.requests) == calls
        again = await judged(tmp_path / "parts", endpoint, kind, needed)
    assert len(endpoint.requests) == needed
    assert not isinstance(again, str)
    assert [(each.score, each.label, each.components) for each in again] == [
        (each.score, each.label, each.components) for each in whole
    ]


@pytest.mark.parametrize("kind", SEVERAL_CALLS)
async def test_restarts_with_one_budget_spend_it_once_whatever_fails(
    tmp_path: Path, kind: JudgeKind
) -> None:
    def failing(request: Json, number: int) -> Reply | str:
        """Of two requests one fails, after it was paid for."""
        return (
            verdict(request)
            if number % 2
            else Reply(body=completion("", prompt_tokens=7, completion_tokens=0))
        )

    async with ScriptedEndpoint(failing) as endpoint:
        for _ in range(3):
            assert (
                await judged(tmp_path, endpoint, kind, 1, retries=9)
                == "the budget of 1 call is spent"
            )
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("kind", SEVERAL_CALLS)
async def test_dollars_of_parts_are_those_of_the_run(tmp_path: Path, kind: JudgeKind) -> None:
    """Every answer costs 5 tokens of a dollar each, and may cost 10; there are dollars for one."""
    prices = {"judge_price_input": 0.0, "judge_price_output": 1e6}
    settings = settings_of(kind, **prices, judge_max_tokens=10, judge_max_concurrency=1)
    async with ScriptedEndpoint(verdict) as endpoint:
        settings = settings.model_copy(update={"judge_base_url": endpoint.base_url})
        for part in range(3):
            run = RunDirectory(tmp_path, config={}, matters={}, resume=True)
            with closing(run), closing(CallLedger(run, finished=(), keep_texts=False)) as ledger:
                chat = settings.chat_settings()
                spent = ledger.earlier.price_usage({settings.judge_model_name: chat.prices})
                assert spent.usd == (5.0 if part else 0.0)
                async with ChatClient(chat, budget=resumed(Budget(usd=14.0), spent)) as client:
                    with (
                        record_calls(ledger.row("row-1")),
                        pytest.raises(BudgetError, match=r"\$14 is spent: \$5"),
                    ):
                        await open_judge(settings, client).score(ITEMS[kind])
    assert len(endpoint.requests) == 1
