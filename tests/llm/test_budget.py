"""A budget of calls and dollars: what is sent, what is refused, and when the refused are told."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.budget import Budget, Expense
from judgegym.llm.cache import CacheRow, JudgmentCache
from judgegym.llm.client import ChatClient, ChatSettings
from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.types import ChatResponse, Endpoint
from judgegym.llm.usage import Prices
from judgegym.llm.wire import Choice
from tests.scripted import Json, Meeting, Reply, ScriptedEndpoint, completion, in_turn

Connect = Callable[..., ChatClient]

PRICED = Prices(input=1e6, output=0.0)
"""A dollar a prompt token: an answer with the usual ten of them costs ten dollars."""


def ask(number: int) -> list[Any]:
    return [{"role": "user", "content": f"question {number}"}]


async def asked(client: ChatClient, count: int) -> tuple[int, int]:
    """Ask so many questions at once; how many were answered, and how many refused."""
    outcomes = await asyncio.gather(*(client.chat(ask(number)) for number in range(count)), return_exceptions=True)
    unexpected = [each for each in outcomes if not isinstance(each, ChatResponse | BudgetError)]
    assert unexpected == []
    answered = sum(isinstance(each, ChatResponse) for each in outcomes)
    return answered, count - answered


@pytest.mark.parametrize("at_once", [1, 3, 100])
async def test_a_budget_of_calls_is_used_up_and_never_exceeded(connect: Connect, at_once: int) -> None:
    budget = Budget(calls=7)
    async with ScriptedEndpoint() as endpoint:
        answered = await asked(connect(endpoint, budget=budget, max_concurrency=at_once), 20)
    assert (answered, len(endpoint.requests)) == ((7, 13), 7)
    assert budget.spent.calls == 7


async def test_what_was_spent_before_counts(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        assert await asked(connect(endpoint, budget=Budget(calls=7, before=Expense(5))), 20) == (2, 18)
        assert await asked(connect(endpoint, budget=Budget(calls=7, before=Expense(9))), 20) == (0, 20)
    assert len(endpoint.requests) == 2


async def test_each_attempt_is_a_call_and_a_retry_is_refused_like_any_other(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(status=500)) as endpoint:
        with pytest.raises(BudgetError, match="budget of 3 calls is spent") as raised:
            await connect(endpoint, budget=Budget(calls=3)).chat(ask(1))
    assert (len(endpoint.requests), raised.value.attempts) == (3, 3)


async def test_a_refused_retry_does_not_wait_for_its_pause(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(status=429, headers={"Retry-After": "30"})) as endpoint:
        with pytest.raises(BudgetError):
            await asyncio.wait_for(connect(endpoint, budget=Budget(calls=1)).chat(ask(1)), 10)


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


async def test_answers_of_the_cache_and_of_identical_calls_cost_nothing(connect: Connect, tmp_path: Path) -> None:
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
async def test_a_budget_of_dollars_is_exceeded_by_the_calls_in_flight_at_most(connect: Connect, at_once: int) -> None:
    budget = Budget(usd=45.0)
    meetings = [Meeting(at_once) for _ in range(10)]

    async def together(request: Json, number: int) -> str:
        await meetings[(number - 1) // at_once].wait()
        return "fine"

    async with ScriptedEndpoint(together) as endpoint:
        client = connect(endpoint, budget=budget, prices=PRICED, max_concurrency=at_once)
        await asked(client, 40)
    assert len(endpoint.requests) == {1: 5, 4: 8}[at_once]  # the fifth answer, of ten dollars each, is beyond it
    assert budget.spent == Expense(len(endpoint.requests), 10.0 * len(endpoint.requests))


async def test_unusable_answers_are_paid_for(connect: Connect) -> None:
    async with ScriptedEndpoint(Reply(body=completion(""))) as endpoint:
        with pytest.raises(BudgetError, match=r"budget of \$25 is spent: \$30.0000 for 3 calls"):
            await connect(endpoint, budget=Budget(usd=25.0), prices=PRICED).chat(ask(1))
    assert len(endpoint.requests) == 3


async def test_a_price_that_is_not_known_is_an_error_before_the_first_call() -> None:
    settings = ChatSettings((Endpoint("http://127.0.0.1:1/v1", "m"),), title="the judge", price_settings="judge_price_")
    with pytest.raises(SettingsError, match="price of the judge is not known; set --judge_price_input and --judge_pr"):
        ChatClient(settings, budget=Budget(usd=1.0))
    ChatClient(settings, budget=Budget(calls=1))


async def test_an_endpoint_that_counts_no_tokens_ends_the_run_and_its_errors_do_not(connect: Connect) -> None:
    uncounted = {key: value for key, value in completion("fine").items() if key != "usage"}
    error = {"error": {"message": "overloaded", "code": 503}}
    async with ScriptedEndpoint(in_turn(Reply(body=error), "fine", Reply(body=uncounted))) as endpoint:
        client = connect(endpoint, budget=Budget(usd=1000.0), prices=PRICED)
        assert (await client.chat(ask(1))).attempts == 2
        await client.chat(ask(2))
        with pytest.raises(BudgetError, match="does not count the tokens"):
            await client.chat(ask(3))
    assert len(endpoint.requests) == 3


async def test_nobody_is_refused_before_the_requests_in_flight_have_ended(connect: Connect) -> None:
    leave = asyncio.Event()

    async def slow(request: Json, number: int) -> str:
        await leave.wait()
        return "fine"

    async with ScriptedEndpoint(slow) as endpoint:
        judge, policy = (connect(endpoint, budget=budget) for budget in [Budget(calls=2)] * 2)
        paid = [asyncio.create_task(client.chat(ask(number))) for number, client in enumerate((judge, policy))]
        await endpoint.arrived(2)
        refused = asyncio.create_task(judge.chat(ask(3)))
        await asyncio.sleep(0.05)
        assert not refused.done()
        leave.set()
        with pytest.raises(BudgetError):
            await refused
        assert [task.result().first.text for task in paid] == ["fine", "fine"]
    assert len(endpoint.requests) == 2


class SlowCache(JudgmentCache):
    """Stores nothing until it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    async def put(self, key: str, choice: Choice, *, instead_of: CacheRow) -> Choice:
        self.begun.set()
        await self.goes_on.wait()
        return await super().put(key, choice, instead_of=instead_of)


async def test_nobody_is_refused_before_an_answer_that_was_paid_for_is_recorded(
    connect: Connect, tmp_path: Path
) -> None:
    """Who is refused may end the caller of that answer, too."""
    cache = SlowCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint() as endpoint:
        client = connect(endpoint, budget=Budget(calls=1), cache=cache)
        paid = asyncio.create_task(client.chat(ask(1)))
        await cache.begun.wait()
        refused = asyncio.create_task(client.chat(ask(2)))
        await asyncio.sleep(0.05)
        assert not refused.done()
        cache.goes_on.set()
        with pytest.raises(BudgetError):
            await refused
        assert paid.done()
    cache.close()


async def test_a_request_in_flight_that_is_cancelled_was_sent(connect: Connect) -> None:
    budget = Budget(calls=2)
    async with ScriptedEndpoint(in_turn(Reply(hang=True), "fine")) as endpoint:
        client = connect(endpoint, budget=budget)
        cancelled = asyncio.create_task(client.chat(ask(1)))
        await endpoint.arrived(1)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await client.chat(ask(2))
        with pytest.raises(BudgetError):
            await client.chat(ask(3))
    assert budget.spent.calls == 2
