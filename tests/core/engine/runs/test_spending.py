"""What a ledger says that was spent: answers, failures and requests whose end nobody knows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judgegym.llm.cost.budget import Expense
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import record_calls
from judgegym.llm.usage import Prices
from tests.core.engine.runs.test_ledger import ASK, Session, connected
from tests.scripted import Reply, completion, in_turn

PRICES = {"judge": Prices(1e6, 0.0)}
"""A dollar a prompt token."""


def spent(path: Path, prices: dict[str, Prices]) -> Expense:
    with Session(path) as ledger:
        return ledger.earlier.price_usage(prices)


async def test_answers_failures_and_what_was_in_flight_count(tmp_path: Path) -> None:
    empty = Reply(body=completion("", prompt_tokens=3))
    replies = in_turn(Reply(status=500), "fine", empty, empty, Reply(hang=True))
    async with connected(replies, max_retries=1) as (client, endpoint):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK)  # two requests, an answer of ten tokens
            with pytest.raises(EndpointError):
                await client.chat(ASK)  # two requests, whose answers cannot be used
            stopped = asyncio.create_task(client.chat(ASK))
            await endpoint.arrived(5)
            stopped.cancel()
            await asyncio.wait([stopped])
    assert spent(tmp_path, PRICES) == Expense(5, 16.0)
    assert spent(tmp_path, PRICES) == Expense(5, 16.0)  # opening the ledger again adds nothing


async def test_retries_and_refused_connections_of_what_was_in_flight_are_known(
    tmp_path: Path,
) -> None:
    replies = in_turn("fine", Reply(status=500), Reply(hang=True))
    async with connected(replies, max_retries=5, retry_delay_s=0.0) as (client, endpoint):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK)
            async with endpoint.away():
                unsent = asyncio.create_task(client.chat(ASK))
                while client.waiting is None:  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0.01)
                unsent.cancel()
                await asyncio.wait([unsent])
                assert b'{"unsent":2}\n' in (tmp_path / "calls.jsonl").read_bytes()
            stopped = asyncio.create_task(client.chat(ASK))
            await endpoint.arrived(3)
            stopped.cancel()
            await asyncio.wait([stopped])
    assert spent(tmp_path, PRICES).calls == len(endpoint.requests) == 3


async def test_tokens_have_the_prices_of_now_and_otherwise_the_recorded_cost(
    tmp_path: Path,
) -> None:
    async with connected("fine", prices=Prices(2e6, 0.0)) as (client, _):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK)
    assert spent(tmp_path, PRICES).usd == 10.0
    assert spent(tmp_path, {}).usd == 20.0


async def test_without_a_price_then_or_now_the_cost_is_not_known(tmp_path: Path) -> None:
    async with connected("fine", prices=Prices()) as (client, _):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK)
    assert spent(tmp_path, {}) == Expense(1, None)
    assert spent(tmp_path, PRICES) == Expense(1, 10.0)
