"""A call that ends the run leaves the calls beside it to their end: their answers are paid for, and are recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from judgegym.judges.scorers.registry import JudgeKind, scorer_of
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, EndpointOutage, RunStop
from judgegym.llm.ledger import CallKey, VerdictLocation, recorded_in
from judgegym.llm.types import ChatResponse
from tests.judges.scorers.kinds import ITEMS, KINDS, settings_of, verdict
from tests.scripted import ScriptedEndpoint

SEVERAL_CALLS = [kind for kind in KINDS if kind != "choice"]


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


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("kind", SEVERAL_CALLS)
async def test_answers_of_the_calls_beside_it_are_recorded_before_the_run_ends(kind: JudgeKind, calls: int) -> None:
    ledger = Ledger(calls)
    async with ScriptedEndpoint(verdict) as endpoint:
        settings = settings_of(kind, judge_base_url=endpoint.base_url)
        async with ChatClient(settings.chat_settings()) as client:
            with recorded_in(ledger):
                try:
                    await scorer_of(settings, client).score(ITEMS[kind])
                except EndpointOutage:
                    assert ledger.refused
            at_the_end = ledger.answers
    assert at_the_end == calls
    assert len(endpoint.requests) == calls
