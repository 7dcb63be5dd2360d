"""A ledger of calls, as the client of a model sees it: answers of an earlier run are taken from it, new ones put in.

The rows of a run set the ledger for everything that is called on their behalf (`record_calls`);
without one, a call
goes to its endpoint and is recorded nowhere. Guarantees: an answer is in the ledger before its
caller has it; a request is noted as sent before it leaves. The ledger on disk is
`judgegym.engine.runs.ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from judgegym.llm.at_once import bind_context, row_in_progress
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.responses.outcome import ReadItems
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Choice, Message


@dataclass(frozen=True, slots=True)
class CallKey:
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


class VerdictLocation(NamedTuple):
    """Whether an answer has what it was asked for, and from where to where in its text that stands, if it is known."""

    is_there: bool
    at: tuple[int, int] | None = None


class RowLedger(Protocol):
    """The part of a ledger that belongs to one row. A call's answer may come in parts: requests for one choice each."""

    @property
    def name(self) -> str:
        """What tells the row apart from the others of its run."""

    def open(self, identity: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        """Return the key of a call that begins, and the parts of its answer that the ledger holds of an earlier run.

        Of equal calls of a row, the k-th one is that of the k-th one in an earlier run.
        """

    def holds(self, identity: CallKey) -> bool:
        """Return whether this call, if it began now, would have parts of an earlier run."""

    async def ready(self) -> float:
        """Wait until an answer can be recorded; awaited before a request leaves. Returns the seconds that it took."""

    def sent(self, number: int | None = None) -> int:
        """Note that a request leaves; return its number in the ledger. One that has a number leaves once more."""

    def not_sent(self, number: int) -> None:
        """Note that a request which was about to leave did not: the endpoint refused the connection."""

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        """Record a part; `number` is that of its request, `None` if none was sent (cached, or another call's)."""

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        """Record that a request has no answer, so that it is not in flight, and what its attempts have cost."""


NOTHING_PAID = Usage()


class Upload(NamedTuple):
    """A request beside the API that is no call of a model.

    Attributes:
        data: its body; `None` for a GET.
        content_type: of the body.
        may_count_twice: it is sent once only, since a second one would do again what the first one
            did.
    """

    data: bytes | None = None
    content_type: str = "application/json"
    may_count_twice: bool = False


@dataclass(slots=True)
class RequestRecord:
    """One request of a call, over all its attempts, and its record in the ledger.

    Attributes:
        part: which part of the call's answer it asks for.
        row: the ledger that it is noted in; `None` if nothing is recorded.
        key: of its call there.
        number: its number in the ledger; `None` until it is sent.
        finish: called once when the answer is recorded, or will not be; `None` if nobody waits for
            that.
        body: what is sent, but for the model's name at the replica; without one, the request is a
            GET.
        path: beside the API; `None` for chat completions.
        read: reads the response at `path`, where it is a call of a judge as a completion is: it
            counts in the budget.
        upload: what is sent at `path` that is no JSON.
        cached: where beginnings of its prompt end that the endpoint is to keep in its prefix cache.
        tokens: what it takes of the tokens a minute.
        worst: US dollars that an attempt may cost, reserved in the budget while it is made.
        received: how many choices its answer had, the unusable ones too.
        attempts: requests sent.
        broken: those that count against `max_retries`.
        paid: the usage of all answers, unusable ones too.
        began: when it began to wait for that (monotonic clock).
        started: when its first attempt was admitted (monotonic clock).
        unreachable_s: seconds that it waited since for a model that was away, or until its answer could be
            recorded.
        failure: of the attempt before; `None` before the first one.
        is_probe: it is sent although the circuit breaker is open.
        is_live: it is sent by itself, also where requests go into batches.
        dropped: the fields that its attempts were refused, with the refusals (`request_fields.py`).
        changed: the fields that its last attempt was sent without, or with another name.
    """

    part: int = 0
    row: RowLedger | None = None
    key: str = ""
    number: int | None = None
    finish: Callable[[], None] | None = None
    body: dict[str, JSON] | None = None
    path: str | None = None
    read: ReadItems | None = None
    upload: Upload | None = None
    cached: tuple[int, ...] = ()
    tokens: int = 0
    worst: float = 0.0
    received: int = 0
    attempts: int = 0
    broken: int = 0
    paid: Usage = NOTHING_PAID
    began: float = 0.0
    started: float = 0.0
    unreachable_s: float = 0.0
    failure: EndpointError | None = None
    is_probe: bool = False
    is_live: bool = False
    dropped: dict[str, EndpointError] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    def elapsed(self) -> float:
        """Seconds of the deadline: since the first attempt was admitted, without those in which the model was away."""
        return time.monotonic() - self.started - self.unreachable_s

    def note_sent(self) -> None:
        """Note that an attempt leaves now."""
        if self.row is not None:
            self.number = self.row.sent(self.number)

    def note_unsent(self) -> None:
        """Note that the attempt did not leave."""
        if self.row is not None and self.number is not None:
            self.row.not_sent(self.number)


_ROW: ContextVar[RowLedger | None] = ContextVar("row", default=None)
_COMPONENT: ContextVar[str] = ContextVar("component", default="")


@contextmanager
def record_calls(row: RowLedger | None) -> Iterator[None]:
    """Record all calls inside as those of a row; `None` records nothing."""
    with bind_context(_ROW, row), nullcontext() if row is None else row_in_progress(row):
        yield


def current_row() -> RowLedger | None:
    """Return the ledger in which calls are recorded that are made here; `None` if nothing is recorded."""
    return _ROW.get()


def current_component() -> str:
    """What `component` puts before the components of calls that are made here: nothing, or `a/b/`."""
    return _COMPONENT.get()


@contextmanager
def component(name: str) -> Iterator[None]:
    """Put `name/` before the components of all calls inside, where a row makes equal calls for different ends."""
    with bind_context(_COMPONENT, f"{_COMPONENT.get()}{name}/"):
        yield


def call_key(
    name: str, vote: int, model: str, messages: Sequence[Message], parameters: Mapping[str, JSON]
) -> CallKey:
    """What a call that is made here asks, named within the components of the context."""
    return CallKey(f"{_COMPONENT.get()}{name}".removesuffix("/"), vote, model, messages, parameters)


@dataclass(slots=True)
class CallInProgress:
    """One call with the parts of its answer.

    Attributes:
        identity: what it asks.
        row: the ledger that it is recorded in; `None` if nothing is recorded.
        key: its key there.
        parts: those that the ledger held, and those that have arrived since.
    """

    identity: CallKey
    row: RowLedger | None = None
    key: str = ""
    parts: dict[int, ChatResponse] = field(default_factory=dict)
    _taken: set[int] = field(default_factory=set)

    @classmethod
    def begin(
        cls,
        name: str,
        vote: int,
        model: str,
        messages: Sequence[Message],
        parameters: Mapping[str, JSON],
    ) -> CallInProgress:
        """Begin a call, recorded if its row has a ledger."""
        row, identity = _ROW.get(), call_key(name, vote, model, messages, parameters)
        return cls(identity) if row is None else cls(identity, row, *row.open(identity))

    @property
    def responses(self) -> list[ChatResponse]:
        """The parts, in their order."""
        return [self.parts[part] for part in sorted(self.parts)]

    @property
    def choices(self) -> int:
        """The number of completions that are there."""
        return sum(len(response.choices) for response in self.parts.values())

    async def ask(
        self,
        send: Callable[[RequestRecord], Awaitable[ChatResponse]],
        *,
        keep: Callable[[Choice], bool] | None = None,
        verdict_at: Callable[[Choice], tuple[int, int] | None] | None = None,
    ) -> ChatResponse:
        """Wait for the next part, and record it.

        Args:
            send: sends the request for the part.
            keep: whether a choice has what it was asked for; if the row fails, a resumed run asks
                again for a part with one that has not.
            verdict_at: where the text of a choice has it.

        Raises:
            EndpointError: as raised by `send`.
            RunStop: as raised by `send`.
        """
        part = 0
        while part in self.parts or part in self._taken:
            part += 1
        self._taken.add(part)
        request = RequestRecord(part, self.row, key=self.key)
        try:
            response = await send(request)
            if self.row is not None:
                is_there = keep is None or all(map(keep, response.choices))
                at = None if verdict_at is None or not is_there else verdict_at(response.first)
                self.row.answered(
                    self, part, request.number, response, VerdictLocation(is_there, at)
                )
        except (EndpointError, RunStop) as error:
            if self.row is not None and request.number is not None:
                self.row.failed(self, request.number, error)
            raise
        finally:
            if request.finish is not None:
                request.finish()
        self.parts[part] = response
        return response
