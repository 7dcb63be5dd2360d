"""The client's side of a ledger of calls: when it is told what, and in which order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.ledger import CallInProgress, CallKey, VerdictLocation, component, record_calls
from judgegym.llm.types import ChatResponse, ChatSettings, Endpoint
from judgegym.llm.wire import Choice, Message
from tests.scripted import Reply, ScriptedEndpoint, in_turn

ASK = [Message(role="user", content="Say it.")]


@dataclass
class Book:
    """A ledger in memory, of one row and its one call."""

    parts: dict[int, ChatResponse] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    asked: list[CallKey] = field(default_factory=list)
    retries: int = 0

    def open(self, asked: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        self.asked.append(asked)
        return "key", dict(self.parts)

    async def ready(self) -> float:
        return 0.0

    def sent(self, number: int | None = None) -> int:
        if number is not None:
            self.retries += 1
            return number
        self.events.append("sent")
        return self.events.count("sent")

    def not_sent(self, number: int) -> None:
        self.retries -= 1

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        self.events.append(
            (part, number, [choice.text for choice in answer.choices], verdict.is_there)
        )

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        self.events.append(("failed", number))


def client_of(endpoint: ScriptedEndpoint, **settings: Any) -> ChatClient:
    values = {"temperature": 1.0, "retry_delay_s": 0.0, **settings}
    return ChatClient(ChatSettings((Endpoint(endpoint.base_url, "judge"),), **values))


def said(*texts: str) -> ChatResponse:
    return ChatResponse(tuple(Choice(text) for text in texts))


async def test_a_request_is_noted_once_before_its_attempts_and_its_answer_before_the_caller_has_it() -> (
    None
):
    book = Book()
    async with (
        ScriptedEndpoint(in_turn(Reply(status=500), "fine")) as endpoint,
        client_of(endpoint) as client,
    ):
        with record_calls(book):
            await client.chat(ASK, name="game_1", vote=3, keep=lambda choice: False)
        await client.chat(ASK)
    assert (book.events, book.retries) == (["sent", (0, 1, ["fine"], False)], 1)
    assert [(asked.component, asked.vote, asked.model) for asked in book.asked] == [
        ("game_1", 3, "judge")
    ]


async def test_a_request_that_fails_is_noted_as_such_and_one_that_is_stopped_is_not() -> None:
    book = Book()
    async with ScriptedEndpoint(Reply(status=400)) as endpoint, client_of(endpoint) as client:
        with record_calls(book), pytest.raises(EndpointError):
            await client.chat(ASK)
    assert book.events == ["sent", ("failed", 1)]
    book = Book()
    async with ScriptedEndpoint(Reply(hang=True)) as endpoint, client_of(endpoint) as client:
        with record_calls(book):
            asking = asyncio.create_task(client.chat(ASK))
        await endpoint.arrived(1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert book.events == ["sent"]


async def test_equal_calls_in_flight_are_each_recorded_and_one_is_sent() -> None:
    first, second = Book(), Book()

    async def ask(client: ChatClient, book: Book) -> ChatResponse:
        with record_calls(book):
            return await client.chat(ASK)

    async with (
        ScriptedEndpoint(Reply("fine", delay_s=0.05)) as endpoint,
        client_of(endpoint, temperature=0.0) as client,
    ):
        answers = await asyncio.gather(ask(client, first), ask(client, second))
    assert [answer.cached for answer in answers] == [False, True]
    assert first.events == ["sent", (0, 1, ["fine"], True)]
    assert second.events == [(0, None, ["fine"], True)]


async def test_components_are_nested_and_end_with_their_block() -> None:
    book = Book()
    with record_calls(book):
        with component("rollout_1"):
            with component("judge_ann"):
                CallInProgress.begin("score", 0, "m", ASK, {})
            CallInProgress.begin("", 0, "m", ASK, {})
        CallInProgress.begin("policy", 0, "m", ASK, {})
    CallInProgress.begin("outside", 0, "m", ASK, {})
    assert [asked.component for asked in book.asked] == [
        "rollout_1/judge_ann/score",
        "rollout_1",
        "policy",
    ]
