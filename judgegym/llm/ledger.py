"""The ledger of calls as a client sees it: recorded responses are reused, new ones recorded.

A row of a run sets the ledger for all calls made for it (`record_calls`); without one a call is
recorded nowhere. Guarantees: a response is in the ledger before its caller gets it; a request is
noted before it is sent. The ledger on disk is `judgegym.engine.runs.ledger`.
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
    """The content of a call; identical calls are distinguished by their order.

    Attributes:
        component: the name of the call in its row, such as `policy` or `rollout_2/game_1`.
        vote: the index among several independent responses to one question.
        model: the model's name.
        messages: the conversation.
        parameters: the other fields of the request's body, except the number of completions.
    """

    component: str
    vote: int
    model: str
    messages: Sequence[Message]
    parameters: Mapping[str, JSON]


class VerdictLocation(NamedTuple):
    """Whether a response has a verdict, and its position in the text, if known."""

    is_there: bool
    at: tuple[int, int] | None = None


class RowLedger(Protocol):
    """One row's part of a ledger.

    A call's response may come in parts: one request for each choice.
    """

    @property
    def name(self) -> str:
        """What distinguishes the row from the others of its run."""

    def open(self, identity: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        """Return the key of a new call, and the parts of its response that an earlier run recorded.

        The k-th of several identical calls of a row gets the parts of the k-th one in the earlier
        run.
        """

    def holds(self, identity: CallKey) -> bool:
        """Return whether this call, if it began now, would have recorded parts."""

    async def ready(self) -> float:
        """Wait, before a request is sent, until a response can be recorded; return the seconds."""

    def sent(self, number: int | None = None) -> int:
        """Note that a request is sent; return its number. A request with a number is a retry."""

    def not_sent(self, number: int) -> None:
        """Note that a request was not sent after all: the endpoint refused the connection."""

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        """Record a part of a response.

        `number` is that of its request; `None` if none was sent (from the cache, or shared with
        another call).
        """

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        """Record that a request failed, and its attempts' cost; it is no longer in flight."""


NOTHING_PAID = Usage()


class Upload(NamedTuple):
    """A request outside the chat API that is no call of a model.

    Attributes:
        data: its body; `None` for a GET.
        content_type: of the body.
        may_count_twice: whether a repetition would act a second time, so that it is sent only once.
    """

    data: bytes | None = None
    content_type: str = "application/json"
    may_count_twice: bool = False


@dataclass(slots=True)
class RequestRecord:
    """One request of a call, with all its attempts, and its record in the ledger.

    Attributes:
        part: the number of the part of the response that it asks for.
        row: the row's ledger; `None` if nothing is recorded.
        key: its call's key there.
        number: its number in the ledger; `None` until it is sent.
        finish: called once when the response is recorded or will not be; `None` if not needed.
        body: the body without the model's name at the replica; without one, the request is a GET.
        path: a path outside the chat API; `None` for chat completions.
        read: reads the response at `path` of a judge's call, which counts in the budget.
        upload: a body for `path` that is not JSON.
        cached: the ends of the prompt's prefixes that the endpoint should cache.
        tokens: its tokens for the rate limit.
        worst: an attempt's highest cost in US dollars, reserved in the budget meanwhile.
        received: the number of choices received, including unusable ones.
        attempts: the number of requests sent.
        broken: the number of failures that count against `max_retries`.
        paid: the usage of all responses, including unusable ones.
        began: when it began to wait (monotonic clock).
        started: when its first attempt was admitted (monotonic clock).
        unreachable_s: seconds since then that it waited for an unreachable model, or until its
            response could be recorded.
        failure: the previous attempt's failure; `None` before the first attempt.
        is_probe: whether it is sent although the circuit breaker is open.
        is_live: whether it is sent live although requests go into batches.
        dropped: the refused fields of its attempts, with the refusals (`request_fields.py`).
        changed: the fields that its last attempt left out or renamed.
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
        """Return the seconds of the deadline used since the first attempt.

        Time in which the model was unreachable does not count.
        """
        return time.monotonic() - self.started - self.unreachable_s

    def note_sent(self) -> None:
        """Note that an attempt is sent now."""
        if self.row is not None:
            self.number = self.row.sent(self.number)

    def note_unsent(self) -> None:
        """Note that the attempt was not sent."""
        if self.row is not None and self.number is not None:
            self.row.not_sent(self.number)


_ROW: ContextVar[RowLedger | None] = ContextVar("row", default=None)
_COMPONENT: ContextVar[str] = ContextVar("component", default="")


@contextmanager
def record_calls(row: RowLedger | None) -> Iterator[None]:
    """Record the calls in the block for a row; `None` records nothing."""
    with bind_context(_ROW, row), nullcontext() if row is None else row_in_progress(row):
        yield


def current_row() -> RowLedger | None:
    """Return the ledger that records calls made here; `None` if nothing is recorded."""
    return _ROW.get()


def current_component() -> str:
    """Return the prefix of the components of calls made here: empty, or `a/b/`."""
    return _COMPONENT.get()


@contextmanager
def component(name: str) -> Iterator[None]:
    """Prefix the components of the calls in the block with `name/`.

    A row uses it for identical calls with different purposes.
    """
    outer = _COMPONENT.get()
    with bind_context(_COMPONENT, f"{outer}{name}/"):
        yield


def call_key(
    name: str, vote: int, model: str, messages: Sequence[Message], parameters: Mapping[str, JSON]
) -> CallKey:
    """Return the content of a call made here, with the context's component prefix."""
    return CallKey(f"{_COMPONENT.get()}{name}".removesuffix("/"), vote, model, messages, parameters)


@dataclass(slots=True)
class CallInProgress:
    """One call with the parts of its response.

    Attributes:
        identity: its content.
        row: the row's ledger; `None` if nothing is recorded.
        key: its key there.
        parts: the recorded parts, and those received since.
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
        """Start a call; it is recorded if its row has a ledger."""
        row, identity = _ROW.get(), call_key(name, vote, model, messages, parameters)
        if row is None:
            return cls(identity)
        return cls(identity, row, *row.open(identity))

    @property
    def responses(self) -> list[ChatResponse]:
        """The parts in their order."""
        return [self.parts[part] for part in sorted(self.parts)]

    @property
    def choices(self) -> int:
        """The number of completions received."""
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
            send: sends the part's request.
            keep: tells whether a choice has a verdict; if the row fails, a resumed run asks again
                for parts without one.
            verdict_at: returns the verdict's span in a choice's text.

        Raises:
            EndpointError: `send` raised it.
            RunStop: `send` raised it.
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
                at = None
                if not (verdict_at is None or not is_there):
                    at = verdict_at(response.first)
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
