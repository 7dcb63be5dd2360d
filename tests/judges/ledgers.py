"""A ledger that ends the run after a number of calls, as the outage of an endpoint does."""

from __future__ import annotations

from dataclasses import dataclass, field

from judgegym.llm.errors import EndpointError, EndpointOutage, RunStop
from judgegym.llm.ledger import CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse


@dataclass
class Ledger:
    """Lets so many calls be sent; every further one ends the run, as one to a lost endpoint does."""

    calls: int
    answers: int = 0
    refused: int = 0

    def record(self, asked: CallKey) -> Record:
        return Record(self)

    def holds(self, asked: CallKey) -> bool:
        return False


@dataclass
class Record:
    """One call of it."""

    ledger: Ledger
    held: dict[int, ChatResponse] = field(default_factory=dict)

    async def ready(self) -> float:
        if not self.ledger.calls:
            self.ledger.refused += 1
            raise EndpointOutage("the endpoint is lost")
        self.ledger.calls -= 1
        return 0.0

    def sent(self) -> int:
        return 1

    def sent_again(self, number: int) -> None: ...

    def not_sent(self, number: int) -> None: ...

    def answered(self, part: int, number: int | None, answer: ChatResponse, verdict: VerdictLocation) -> None:
        self.ledger.answers += 1

    def failed(self, number: int, error: EndpointError | RunStop) -> None: ...
