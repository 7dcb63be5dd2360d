"""A ledger that ends the run after a number of calls, as the outage of an endpoint does."""

from __future__ import annotations

from dataclasses import dataclass

from judgegym.llm.errors import EndpointError, EndpointOutage, RunStop
from judgegym.llm.ledger import CallInProgress, CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse


@dataclass
class Ledger:
    """Lets so many calls be sent; every further one ends the run, as one to a lost endpoint does."""

    calls: int
    answers: int = 0
    refused: int = 0

    def open(self, asked: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        return "", {}

    def holds(self, asked: CallKey) -> bool:
        return False

    async def ready(self) -> float:
        if not self.calls:
            self.refused += 1
            raise EndpointOutage("the endpoint is lost")
        self.calls -= 1
        return 0.0

    def sent(self, number: int | None = None) -> int:
        return 1

    def not_sent(self, number: int) -> None: ...

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        self.answers += 1

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None: ...
