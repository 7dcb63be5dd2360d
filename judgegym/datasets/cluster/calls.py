"""The calls of a unit that is judged in another process: collected there, and recorded in the run's ledger here.

Guarantee: the ledger of the run gets the calls under the keys that they would have had here, so that the run is
resumed, reported and compared as any other; what the ledger held of an earlier run goes along, and is not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from judgegym.engine.runs.ledger import LedgerOfRow, digest_of
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.ledger import CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse

Held: TypeAlias = "Mapping[str, Mapping[int, ChatResponse]]"
"""What a ledger holds of a row, as `LedgerOfRow.held` gives it."""


@dataclass(frozen=True, slots=True)
class RequestLeft:
    """A request left, left once more, or did not leave after all; `number` counts the requests of its call."""

    number: int
    how: Literal["sent", "sent_again", "not_sent"]


@dataclass(frozen=True, slots=True)
class PartMessage:
    """A part of a call's answer; `number` is that of its request, `None` if none was sent."""

    part: int
    number: int | None
    answer: ChatResponse
    verdict: VerdictLocation


@dataclass(frozen=True, slots=True)
class FailureMessage:
    """A request without an answer."""

    number: int
    error: EndpointError | RunStop


@dataclass(slots=True)
class CollectedCall:
    """One call; implements `judgegym.llm.ledger.CallRecord`."""

    asked: CallKey
    held: Mapping[int, ChatResponse]
    events: list[RequestLeft | PartMessage | FailureMessage] = field(default_factory=list)
    _sent: int = 0

    async def ready(self) -> float:
        """See `CallRecord`; the disk is elsewhere."""
        return 0.0

    def sent(self) -> int:
        """See `CallRecord`."""
        self._sent += 1
        self.events.append(RequestLeft(self._sent, "sent"))
        return self._sent

    def sent_again(self, number: int) -> None:
        """See `CallRecord`."""
        self.events.append(RequestLeft(number, "sent_again"))

    def not_sent(self, number: int) -> None:
        """See `CallRecord`."""
        self.events.append(RequestLeft(number, "not_sent"))

    def answered(self, part: int, number: int | None, answer: ChatResponse, verdict: VerdictLocation) -> None:
        """See `CallRecord`."""
        self.events.append(PartMessage(part, number, answer, verdict))

    def failed(self, number: int, error: EndpointError | RunStop) -> None:
        """See `CallRecord`."""
        self.events.append(FailureMessage(number, error))


@dataclass(slots=True)
class CollectedRow:
    """The calls of one unit; implements `judgegym.llm.ledger.RowLedger`."""

    held: Held
    calls: list[CollectedCall] = field(default_factory=list)
    _times: Counter[str] = field(default_factory=Counter)

    def record(self, asked: CallKey) -> CollectedCall:
        """See `RowLedger`."""
        request = digest_of(asked)
        self._times[request] += 1
        call = CollectedCall(asked, self.held.get(f"{request}.{self._times[request]}", {}))
        self.calls.append(call)
        return call

    def holds(self, asked: CallKey) -> bool:
        """See `RowLedger`."""
        if not self.held:
            return False
        request = digest_of(asked)
        return bool(self.held.get(f"{request}.{self._times[request] + 1}"))


async def record_calls(row: LedgerOfRow, calls: list[CollectedCall]) -> None:
    """Record the calls of a unit in the ledger of its row.

    Raises:
        DiskFull: the disk refused for too long.
    """
    for call in calls:
        record = row.record(call.asked)
        await record.ready()
        numbers: dict[int, int] = {}
        for event in call.events:
            if isinstance(event, RequestLeft):
                if event.how == "sent":
                    numbers[event.number] = record.sent()
                elif event.how == "sent_again":
                    record.sent_again(numbers[event.number])
                else:
                    record.not_sent(numbers[event.number])
            elif isinstance(event, FailureMessage):
                record.failed(numbers[event.number], event.error)
            else:
                number = None if event.number is None else numbers[event.number]
                record.answered(event.part, number, event.answer, event.verdict)
