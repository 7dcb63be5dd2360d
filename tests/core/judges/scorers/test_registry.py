"""A call that ends the run leaves the calls beside it to their end: their answers are paid for, and are recorded."""

from __future__ import annotations

import pytest

from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import JudgeKind
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointOutage
from judgegym.llm.ledger import record_calls
from tests.core.judges.ledgers import Ledger
from tests.core.judges.scorers.kinds import ITEMS, KINDS, settings_of, verdict
from tests.scripted import ScriptedEndpoint

SEVERAL_CALLS = [kind for kind in KINDS if kind != "choice"]


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("kind", SEVERAL_CALLS)
async def test_answers_of_the_calls_beside_it_are_recorded_before_the_run_ends(
    kind: JudgeKind, calls: int
) -> None:
    ledger = Ledger(calls)
    async with ScriptedEndpoint(verdict) as endpoint:
        settings = settings_of(kind, judge_base_url=endpoint.base_url)
        async with ChatClient(settings.chat_settings()) as client:
            with record_calls(ledger):
                try:
                    await open_judge(settings, client).score(ITEMS[kind])
                except EndpointOutage:
                    assert ledger.refused
            at_the_end = ledger.answers
    assert at_the_end == calls
    assert len(endpoint.requests) == calls
