"""Rows with several candidates: a call that ends the run leaves those beside it to their end, and they are recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from judgegym.eval_environments.arena.environment import ArenaHardTask
from judgegym.eval_environments.arena.matches import AgainstBaseline, Tournament
from judgegym.eval_environments.arena.ratings import CandidateAnswer
from judgegym.eval_environments.peer.models import PeerModel
from judgegym.eval_environments.peer.results import PeerAnswer
from judgegym.eval_environments.peer.row import score_answer
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.tournament.schedule import PairJudge, TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointOutage
from judgegym.llm.ledger import record_calls
from tests.core.judges.ledgers import Ledger
from tests.core.judges.scorers.kinds import FAIR, GOOD, POOR, QUESTION, verdict
from tests.scripted import ScriptedEndpoint

TASK = ArenaHardTask("row", QUESTION, FAIR, None)
PLAYERS = [
    CandidateAnswer("one", GOOD),
    CandidateAnswer("two", POOR),
    CandidateAnswer("three", GOOD),
]


async def peers(client: ChatClient) -> None:
    judges = [
        PeerModel(name, PeerTaskJudge(PeerJudgeSettings(), client))
        for name in ("one", "two", "three")
    ]
    await score_answer(judges, PeerAnswer("policy", GOOD), query=QUESTION, rubric="Is it right?")


async def baseline(client: ChatClient) -> None:
    await AgainstBaseline(ArenaTaskJudge(ArenaJudgeSettings(), client), "arena_hard_v0.1").play(
        TASK, PLAYERS
    )


async def tournament(client: ChatClient) -> None:
    settings = TournamentSettings()
    await Tournament(PairJudge(settings, client), settings).play(TASK, PLAYERS)


@pytest.mark.parametrize("row", [peers, baseline, tournament])
async def test_answers_of_the_calls_beside_it_are_recorded_before_the_run_ends(
    row: Callable[[ChatClient], Awaitable[None]],
) -> None:
    ledger = Ledger(calls=2)
    async with ScriptedEndpoint(verdict) as endpoint:
        settings = ArenaJudgeSettings(judge_base_url=endpoint.base_url)
        async with ChatClient(settings.chat_settings()) as client:
            with record_calls(ledger), pytest.raises(EndpointOutage):
                await row(client)
            at_the_end = ledger.answers
    assert at_the_end == 2
    assert len(endpoint.requests) == 2
