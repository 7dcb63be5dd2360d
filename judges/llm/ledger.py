"""A ledger of calls, as the client of a model sees it: answers of an earlier run are taken from it, new ones put in.

The rows of a run set the ledger for everything that is called on their behalf (`recorded_in`); without one, a call
goes to its endpoint and is recorded nowhere. Guarantees: an answer is in the ledger before its caller has it; a request
is noted as sent before it leaves. The ledger on disk is `environments.runs.ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from judges.llm.errors import EndpointError
from judges.llm.types import ChatAnswer
from judges.llm.wire import JSON, Message


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks; calls that ask the same are told apart by their order.

    Attributes:
        component: which call of its row this is, such as `policy` or `rollout_2/game_1`.
        vote: which of several independent answers to one question.
        model: the model's name.
        messages: the conversation.
        parameters: everything else in the request's body, but for the number of completions.
    """

    component: str
    vote: int
    model: str
    messages: Sequence[Message]
    parameters: Mapping[str, JSON]


class CallRecord(Protocol):
    """One call in a ledger. Its answer may come in parts: several requests for one completion each."""

    def held(self) -> Mapping[int, ChatAnswer]:
        """The parts that the ledger holds of an earlier run."""

    async def ready(self) -> None:
        """Wait until an answer can be recorded; awaited before a request leaves."""

    def sent(self) -> int:
        """Note that a request leaves; returns its number in the ledger."""

    def answered(self, part: int, number: int | None, answer: ChatAnswer, *, has_verdict: bool) -> None:
        """Record a part; `number` is that of its request, `None` if none was sent (cached, or another call's)."""

    def failed(self, number: int, error: EndpointError) -> None:
        """Record that a request has no answer, so that it is not in flight."""


class RowLedger(Protocol):
    """The part of a ledger that belongs to one row."""

    def record(self, asked: Asked) -> CallRecord:
        """The record of a call; of equal calls of a row, the k-th one is that of the k-th one in an earlier run."""


@dataclass(slots=True)
class _Request:
    """A request of a recorded call; `number` is `None` until it is sent."""

    record: CallRecord
    number: int | None = None


_ROW: ContextVar[RowLedger | None] = ContextVar("row", default=None)
_COMPONENT: ContextVar[str] = ContextVar("component", default="")
_REQUEST: ContextVar[_Request | None] = ContextVar("request", default=None)


@contextmanager
def recorded_in(row: RowLedger | None) -> Iterator[None]:
    """Record all calls inside as those of a row; `None` records nothing."""
    token = _ROW.set(row)
    try:
        yield
    finally:
        _ROW.reset(token)


@contextmanager
def component(name: str) -> Iterator[None]:
    """Put `name/` before the components of all calls inside, where a row makes equal calls for different ends."""
    token = _COMPONENT.set(_within(name))
    try:
        yield
    finally:
        _COMPONENT.reset(token)


def _within(name: str) -> str:
    return "/".join(part for part in (_COMPONENT.get(), name) if part)


def note_sent() -> None:
    """Note that the first attempt of the request in progress leaves now."""
    request = _REQUEST.get()
    if request is not None and request.number is None:
        request.number = request.record.sent()


async def until_recordable() -> float:
    """Wait until the answer of the request in progress can be recorded; returns the seconds that this took."""
    request = _REQUEST.get()
    if request is None:
        return 0.0
    began = time.monotonic()
    await request.record.ready()
    return time.monotonic() - began


class OpenCall:
    """One call with the parts of its answer: those that the ledger holds, and those asked for since."""

    def __init__(self, record: CallRecord | None) -> None:
        """Begin with what the record holds."""
        self._record = record
        self._parts: dict[int, ChatAnswer] = {} if record is None else dict(record.held())
        self._taken = set(self._parts)

    @classmethod
    def begin(
        cls, name: str, vote: int, model: str, messages: Sequence[Message], parameters: Mapping[str, JSON]
    ) -> OpenCall:
        """Begin a call, recorded if its row has a ledger."""
        row = _ROW.get()
        return cls(None if row is None else row.record(Asked(_within(name), vote, model, messages, parameters)))

    @property
    def answers(self) -> list[ChatAnswer]:
        """The parts, in their order."""
        return [self._parts[part] for part in sorted(self._parts)]

    @property
    def choices(self) -> int:
        """The number of completions that are there."""
        return sum(len(answer.choices) for answer in self._parts.values())

    async def ask(
        self,
        send: Callable[[int], Awaitable[ChatAnswer]],
        *,
        has_verdict: Callable[[ChatAnswer], bool] = lambda answer: True,
    ) -> ChatAnswer:
        """Wait for the next part, and record it.

        Args:
            send: sends the request for the part with a number.
            has_verdict: whether the part has what it was asked for; if its row fails, a resumed run asks again for one
                that has not.

        Raises:
            EndpointError: as raised by `send`.
        """
        part = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._taken.add(part)
        if self._record is None:
            answer = await send(part)
        else:
            answer = await self._recorded(self._record, part, send, has_verdict)
        self._parts[part] = answer
        return answer

    async def _recorded(
        self,
        record: CallRecord,
        part: int,
        send: Callable[[int], Awaitable[ChatAnswer]],
        has_verdict: Callable[[ChatAnswer], bool],
    ) -> ChatAnswer:
        request = _Request(record)
        token = _REQUEST.set(request)
        try:
            answer = await send(part)
        except EndpointError as error:
            if request.number is not None:
                record.failed(request.number, error)
            raise
        finally:
            _REQUEST.reset(token)
        record.answered(part, request.number, answer, has_verdict=has_verdict(answer))
        return answer
