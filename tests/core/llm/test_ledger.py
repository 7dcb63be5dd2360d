"""The client's side of a ledger of calls: when it is told what, and in which order."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm import ledger, transport
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.http import limits
from judgegym.llm.ledger import CallInProgress, CallKey, RequestRecord, VerdictLocation, component, recorded_in
from judgegym.llm.types import ChatResponse, ChatSettings, Endpoint
from judgegym.llm.wire import Choice, Message
from tests.scripted import Reply, ScriptedEndpoint, completion, in_turn
from tests.trainer import until

ASK = [Message(role="user", content="Say it.")]


@dataclass
class Book:
    """A ledger in memory, of one row and its one call."""

    parts: dict[int, ChatResponse] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    asked: list[CallKey] = field(default_factory=list)
    gate: asyncio.Event | None = None
    waiting: int = 0
    retries: int = 0

    def open(self, asked: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        self.asked.append(asked)
        return "key", dict(self.parts)

    async def ready(self) -> float:
        began = time.monotonic()
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
        return time.monotonic() - began

    def sent(self, number: int | None = None) -> int:
        if number is not None:
            self.retries += 1
            return number
        self.events.append("sent")
        return self.events.count("sent")

    def not_sent(self, number: int) -> None:
        self.retries -= 1

    def answered(
        self, call: CallInProgress, part: int, number: int | None, answer: ChatResponse, verdict: VerdictLocation
    ) -> None:
        self.events.append((part, number, [choice.text for choice in answer.choices], verdict.is_there))

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        self.events.append(("failed", number))


def client_of(endpoint: ScriptedEndpoint, **settings: Any) -> ChatClient:
    values = {"temperature": 1.0, "retry_delay_s": 0.0, **settings}
    return ChatClient(ChatSettings((Endpoint(endpoint.base_url, "judge"),), **values))


def said(*texts: str) -> ChatResponse:
    return ChatResponse(tuple(Choice(text) for text in texts))


async def test_a_request_is_noted_once_before_its_attempts_and_its_answer_before_the_caller_has_it() -> None:
    book = Book()
    async with ScriptedEndpoint(in_turn(Reply(status=500), "fine")) as endpoint, client_of(endpoint) as client:
        with recorded_in(book):
            await client.chat(ASK, name="game_1", vote=3, keep=lambda choice: False)
        await client.chat(ASK)
    assert (book.events, book.retries) == (["sent", (0, 1, ["fine"], False)], 1)
    assert [(asked.component, asked.vote, asked.model) for asked in book.asked] == [("game_1", 3, "judge")]


async def test_a_request_that_fails_is_noted_as_such_and_one_that_is_stopped_is_not() -> None:
    book = Book()
    async with ScriptedEndpoint(Reply(status=400)) as endpoint, client_of(endpoint) as client:
        with recorded_in(book), pytest.raises(EndpointError):
            await client.chat(ASK)
    assert book.events == ["sent", ("failed", 1)]
    book = Book()
    async with ScriptedEndpoint(Reply(hang=True)) as endpoint, client_of(endpoint) as client:
        with recorded_in(book):
            asking = asyncio.create_task(client.chat(ASK))
        await endpoint.arrived(1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert book.events == ["sent"]


async def test_equal_calls_in_flight_are_each_recorded_and_one_is_sent() -> None:
    first, second = Book(), Book()

    async def ask(client: ChatClient, book: Book) -> ChatResponse:
        with recorded_in(book):
            return await client.chat(ASK)

    async with (
        ScriptedEndpoint(Reply("fine", delay_s=0.05)) as endpoint,
        client_of(endpoint, temperature=0.0) as client,
    ):
        answers = await asyncio.gather(ask(client, first), ask(client, second))
    assert [answer.cached for answer in answers] == [False, True]
    assert first.events == ["sent", (0, 1, ["fine"], True)]
    assert second.events == [(0, None, ["fine"], True)]


@pytest.mark.parametrize(
    ("held", "requests"),
    [
        ({}, [{"n": 4}]),
        ({0: said("a", "b", "c", "d")}, []),
        ({0: said("a", "b", "c", "d", "e")}, []),
        ({0: said("a", "b", "c")}, [{}]),
        ({0: said("a"), 2: said("c")}, [{}, {}]),
    ],
)
async def test_only_what_the_ledger_lacks_is_asked_for(
    held: dict[int, ChatResponse], requests: list[dict[str, int]]
) -> None:
    book = Book(dict(held))

    def script(request: dict[str, Any], number: int) -> Reply:
        return Reply(body=completion(*(f"new {number}.{place}" for place in range(request.get("n", 1)))))

    async with ScriptedEndpoint(script) as endpoint, client_of(endpoint) as client:
        with recorded_in(book):
            answer = await client.chat(ASK, n=4)
        assert [{name: body[name] for name in body if name == "n"} for body in endpoint.bodies] == requests
    assert len(answer.choices) == 4
    new = [part for event in book.events if event != "sent" for part in [event[0]]]
    assert not set(new) & set(held), "no part is overwritten"


async def test_parts_stand_in_their_order_whichever_came_first() -> None:
    book = Book({1: said("b")})
    call = CallInProgress(CallKey("", 0, "m", ASK, {}), book, "key", dict(book.parts))

    async def later(text: str, after: asyncio.Event, then: asyncio.Event) -> ChatResponse:
        await after.wait()
        then.set()
        return said(text)

    first, last, nothing = asyncio.Event(), asyncio.Event(), asyncio.Event()
    last.set()
    await asyncio.gather(call.ask(lambda _: later("a", first, nothing)), call.ask(lambda _: later("c", last, first)))
    assert [answer.first.text for answer in call.answers] == ["a", "b", "c"]
    assert call.choices == 3


async def test_components_are_nested_and_end_with_their_block() -> None:
    book = Book()
    with recorded_in(book):
        with component("rollout_1"):
            with component("judge_ann"):
                CallInProgress.begin("score", 0, "m", ASK, {})
            CallInProgress.begin("", 0, "m", ASK, {})
        CallInProgress.begin("policy", 0, "m", ASK, {})
    CallInProgress.begin("outside", 0, "m", ASK, {})
    assert [asked.component for asked in book.asked] == ["rollout_1/judge_ann/score", "rollout_1", "policy"]


def test_a_request_of_no_call_is_noted_nowhere() -> None:
    book = Book()
    with recorded_in(book):
        RequestRecord().leaves()
    assert book.events == []


async def test_no_request_leaves_while_its_answer_could_not_be_recorded_and_its_deadline_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book, now = Book(gate=asyncio.Event()), 1000.0
    for module in (ledger, limits, transport, sys.modules[__name__]):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    settings: dict[str, Any] = {"deadline_s": 10.0, "max_concurrency": 1}
    async with ScriptedEndpoint("fine") as endpoint, client_of(endpoint, **settings) as client:
        with recorded_in(book):
            calls = [asyncio.create_task(client.chat([*ASK], name=f"call_{number}")) for number in range(3)]
        await until(lambda: book.waiting > 0, "a call waits")
        now += 50.0
        assert not endpoint.requests
        assert book.events == []
        assert book.gate is not None
        book.gate.set()
        answers = await asyncio.gather(*calls)
    assert [(answer.first.text, answer.latency_s) for answer in answers] == [("fine", 0.0)] * 3
