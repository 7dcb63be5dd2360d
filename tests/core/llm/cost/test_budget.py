"""A budget of calls and dollars: what is sent, what is refused, and when the refused are told."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient, ChatSettings
from judgegym.llm.cost.budget import CALLER_BUDGET, Budget, Expense
from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.types import ChatResponse, Endpoint
from judgegym.llm.usage import Prices
from tests.scripted import Json, Reply, ScriptedEndpoint, completion, in_turn

Connect = Callable[..., ChatClient]

PRICED = Prices(input=0.0, output=1e6)
"""A dollar a token of an answer, of which the usual one has five: five dollars."""


def ask(number: int) -> list[Any]:
    return [{"role": "user", "content": f"question {number}"}]


async def asked(client: ChatClient, count: int) -> tuple[int, int]:
    """Ask so many questions at once; how many were answered, and how many refused."""
    outcomes = await asyncio.gather(
        *(client.chat(ask(number)) for number in range(count)), return_exceptions=True
    )
    unexpected = [each for each in outcomes if not isinstance(each, ChatResponse | BudgetError)]
    assert unexpected == []
    answered = sum(isinstance(each, ChatResponse) for each in outcomes)
    return answered, count - answered


@pytest.mark.parametrize("at_once", [1, 3, 100])
async def test_a_budget_of_calls_is_used_up_and_never_exceeded(
    connect: Connect, at_once: int
) -> None:
    budget = Budget(calls=7)
    async with ScriptedEndpoint() as endpoint:
        answered = await asked(connect(endpoint, budget=budget, max_concurrency=at_once), 20)
    assert (answered, len(endpoint.requests)) == ((7, 13), 7)
    assert budget.spent.calls == 7


async def test_each_attempt_is_a_call_and_a_retry_is_refused_like_any_other(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(Reply(status=500)) as endpoint:
        with pytest.raises(BudgetError, match="budget of 3 calls is spent") as raised:
            await connect(endpoint, budget=Budget(calls=3)).chat(ask(1))
    assert (len(endpoint.requests), raised.value.attempts) == (3, 3)


async def test_requests_that_an_endpoint_refused_to_take_are_none(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, budget=Budget(calls=4), away_deadline_s=30.0)
        await client.chat(ask(0))
        async with endpoint.away():
            waiting = asyncio.create_task(asked(client, 20))
            while client.waiting is None:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.01)
        assert await waiting == (3, 17)
    assert len(endpoint.requests) == 4


async def test_answers_of_the_cache_and_of_identical_calls_cost_nothing(
    connect: Connect, tmp_path: Path
) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, budget=Budget(calls=2), cache=cache, temperature=0.0)
        await asyncio.gather(*(client.chat(ask(1)) for _ in range(5)))
        for _ in range(5):
            assert (await client.chat(ask(1))).cached
        await client.chat(ask(2))
        with pytest.raises(BudgetError):
            await client.chat(ask(3))
    cache.close()
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("at_once", [1, 4])
async def test_the_most_that_a_request_may_cost_is_reserved_before_it_leaves(
    connect: Connect, at_once: int
) -> None:
    """Of 43 dollars each request reserves ten and costs five: nothing is sent that could go beyond."""
    budget = Budget(usd=43.0)
    async with ScriptedEndpoint() as endpoint:
        await asked(
            connect(endpoint, budget=budget, prices=PRICED, max_tokens=10, max_concurrency=at_once),
            40,
        )
    assert budget.spent == Expense(
        7, 35.0
    )  # eight would be 40, and seven with the most of the eighth 45


async def test_what_does_not_fit_waits_for_what_others_in_flight_do_not_use_up(
    connect: Connect,
) -> None:
    leave, budget = asyncio.Event(), Budget(usd=15.0)

    async def slow(request: Json, number: int) -> str:
        await leave.wait()
        return "fine"

    async with ScriptedEndpoint(slow) as endpoint:
        client = connect(endpoint, budget=budget, prices=PRICED, max_tokens=10)
        both = asyncio.create_task(asked(client, 2))
        await endpoint.arrived(1)
        await asyncio.sleep(0.05)
        assert (len(endpoint.requests), budget.explain_refusal(10.0) is not None) == (1, True)
        leave.set()
        assert await both == (2, 0)
    assert budget.spent == Expense(2, 10.0)


async def test_a_waiting_call_that_is_refused_and_cancelled_at_once_gives_nothing_back() -> None:
    budget = Budget(calls=1)
    await budget.reserve()
    waiting = asyncio.create_task(budget.reserve())
    await asyncio.sleep(0)
    budget.finish()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled() and budget.spent.calls == 1


async def test_n_completions_and_the_prompt_are_reserved(connect: Connect) -> None:
    budget, settings = (
        Budget(usd=1.0),
        ChatSettings((Endpoint("http://127.0.0.1:1/v1", "m"),), prices=Prices(1.0, 2.0)),
    )
    body: Json = {"messages": [{"role": "user", "content": "é" * 1000}], "max_tokens": 50, "n": 4}
    worst = budget.worst_cost(body, settings)
    assert 2000 + 400 < worst * 1e6 < 2000 + 400 + 200  # a token of the prompt has a byte at least
    assert budget.worst_cost({**body, "n": 8}, settings) - worst == pytest.approx(400e-6)
    assert Budget(calls=1).worst_cost(body, settings) == 0.0


async def test_answers_without_a_limit_of_tokens_are_an_error_before_the_first_call(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint() as endpoint:
        with pytest.raises(SettingsError, match=r"budget_usd: .*of any length"):
            connect(endpoint, budget=Budget(usd=9.0), prices=PRICED)
        policy = connect(endpoint, budget=Budget(usd=9.0), prices=PRICED, title="the policy")
        with pytest.raises(SettingsError, match="eval_max_tokens"):
            await policy.chat(ask(1))
        await policy.chat(ask(1), max_tokens=5)
    assert len(endpoint.requests) == 1


async def test_an_answer_that_broke_off_counts_as_the_most_and_an_error_as_nothing(
    connect: Connect,
) -> None:
    budget = Budget(usd=1000.0)
    async with ScriptedEndpoint(in_turn(Reply(status=500), Reply(drop=True), "fine")) as endpoint:
        await connect(endpoint, budget=budget, prices=PRICED, max_tokens=10).chat(ask(1))
    assert budget.spent == Expense(3, 0.0 + 10.0 + 5.0)


async def test_a_part_of_a_budget_is_spent_by_its_owner_alone(connect: Connect) -> None:
    whole = Budget(calls=5, ends=False)
    parts = [
        Budget(calls=most, within=whole, owner=owner, ends=False)
        for owner, most in (("a", 2), ("b", 9))
    ]

    async def asked_by(part: Budget, client: ChatClient, count: int) -> tuple[int, int]:
        CALLER_BUDGET.set(part)
        return await asked(client, count)

    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, budget=whole)
        assert await asyncio.create_task(asked_by(parts[0], client, 3)) == (2, 1)
        assert await asyncio.create_task(asked_by(parts[1], client, 4)) == (3, 1)
        assert parts[0].explain_refusal() == "the budget for a of 2 calls is spent"
        assert parts[1].explain_refusal() == "the budget of 5 calls is spent"
    assert len(endpoint.requests) == 5


async def test_unusable_answers_are_paid_for(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(body=completion(""))) as endpoint:
        with pytest.raises(
            BudgetError,
            match=r"of \$15 is spent: \$10\.0000 for 2 calls, .*next call .*\$10\.0000",
        ):
            await connect(endpoint, budget=Budget(usd=15.0), prices=PRICED, max_tokens=10).chat(
                ask(1)
            )
    assert len(endpoint.requests) == 2


async def test_a_price_that_is_not_known_is_an_error_before_the_first_call() -> None:
    settings = ChatSettings(
        (Endpoint("http://127.0.0.1:1/v1", "m"),),
        title="the judge",
        price_settings="--judge_price_input and --judge_price_output",
    )
    with pytest.raises(
        SettingsError,
        match=r"price of the judge .*--judge_price_input and --judge_price_output",
    ):
        ChatClient(settings, budget=Budget(usd=1.0))
    ChatClient(settings, budget=Budget(calls=1))


async def test_an_endpoint_that_counts_no_tokens_ends_the_run_and_its_errors_do_not(
    connect: Connect,
) -> None:
    uncounted = {key: value for key, value in completion("fine").items() if key != "usage"}
    error = {"error": {"message": "overloaded", "code": 503}}
    async with ScriptedEndpoint(
        in_turn(Reply(body=error), "fine", Reply(body=uncounted))
    ) as endpoint:
        client = connect(endpoint, budget=Budget(usd=1000.0), prices=PRICED, max_tokens=10)
        assert (await client.chat(ask(1))).attempts == 2
        await client.chat(ask(2))
        with pytest.raises(BudgetError, match="no token counts"):
            await client.chat(ask(3))
    assert len(endpoint.requests) == 3


async def test_nobody_is_refused_before_the_requests_in_flight_have_ended(connect: Connect) -> None:
    leave = asyncio.Event()

    async def slow(request: Json, number: int) -> str:
        await leave.wait()
        return "fine"

    async with ScriptedEndpoint(slow) as endpoint:
        judge, policy = (connect(endpoint, budget=budget) for budget in [Budget(calls=2)] * 2)
        paid = [
            asyncio.create_task(client.chat(ask(number)))
            for number, client in enumerate((judge, policy))
        ]
        await endpoint.arrived(2)
        refused = asyncio.create_task(judge.chat(ask(3)))
        await asyncio.sleep(0.05)
        assert not refused.done()
        leave.set()
        with pytest.raises(BudgetError):
            await refused
        assert [task.result().first.text for task in paid] == ["fine", "fine"]
    assert len(endpoint.requests) == 2
