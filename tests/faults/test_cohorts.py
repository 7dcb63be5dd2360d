"""Cohorts of the reward server before a judge that fails: each caller has an answer, and no failure is a score."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partialmethod
from typing import Any

import aiohttp
import pytest

from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import load
from judgegym.offline import process
from judgegym.offline.process import StandInSettings
from judgegym.offline.server import StandInServer
from judgegym.server.http import listening
from judgegym.server.service import open_service
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.command import PATIENCE_S
from tests.core.server.running import PLACE
from tests.faults import kinds
from tests.faults.further_faults import faults
from tests.scripted import Json

SIZE, COHORTS = 4, 3
JUDGES = {
    "listwise": ("--judge=listwise", "--listwise_orders=2"),
    "tournament": ("--judge=tournament", "--schedule=all"),
}
ANSWERS = (
    "Eight.",
    "A spider has eight legs.",
    "Six legs, as all insects have.",
    "I would have to count the legs.",
)
CHANGES_NOTHING = ("timeout", "no_finish", *kinds.CHANGES_THE_REQUESTS)
each_judge = pytest.mark.parametrize("judge", JUDGES)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed attempt is repeated at once."""
    monkeypatch.setattr(
        JudgeSettings, "chat_settings", partialmethod(JudgeSettings.chat_settings, retry_delay=0.0)
    )


@asynccontextmanager
async def judging_at(
    port: int = 0, rates: Mapping[str, float] | None = None
) -> AsyncIterator[tuple[int, StandInServer]]:
    """A stand-in as the judge's endpoint, and its port."""
    listener = process.listen("127.0.0.1", port)
    server = StandInServer(StandInSettings(faults=faults(rates or {}), slow_ms=10))
    async with server.serving(listener):
        yield listener.getsockname()[1], server


@asynccontextmanager
async def gathering(port: int, judge: str, *flags: str) -> AsyncIterator[str]:
    """A reward server that gathers cohorts, before the judge at a port; its URL."""
    argv = [
        *JUDGES[judge],
        *PLACE,
        f"--judge_base_url=http://127.0.0.1:{port}/v1",
        "--judge_model_name=the-judge",
        f"--group_size={SIZE}",
        *flags,
    ]
    loaded = load(RewardServerSettings, argv, prog="test", reshape=add_preset)
    async with open_service(loaded) as service, listening(service) as (_, port):
        yield f"http://127.0.0.1:{port}"


async def scored(
    url: str, cohorts: int = COHORTS, members: Sequence[int] = range(SIZE)
) -> list[list[Json]]:
    """What each member of each cohort was answered, each in a request of its own.

    Who is told that the judge is away, and to come back, has the status `away`.
    """
    total = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=total) as session:

        async def ask(cohort: int, member: int) -> Json:
            body = {
                "prompt": f"How many legs have {cohort + 2} spiders?",
                "response": ANSWERS[member],
            }
            body |= {"group": str(cohort), "member": str(member)}
            async with session.post(f"{url}/v1/score", json=body) as response:
                found: Json = await response.json()
                if response.status == 503 and found["error"]["type"] == "judge_away":
                    assert int(response.headers["Retry-After"]) > 0
                    return {
                        "status": "away",
                        "score": None,
                        "explanation": found["error"]["message"],
                    }
                assert response.status == 200, found
                return found

        asked = (
            asyncio.gather(*(ask(cohort, member) for member in members))
            for cohort in range(cohorts)
        )
        return list(await asyncio.gather(*asked))


def scores(cohorts: Sequence[Sequence[Json]]) -> list[list[Any]]:
    return [[result["score"] for result in results] for results in cohorts]


def failed(cohorts: Sequence[Sequence[Json]]) -> Counter[str]:
    """How often there is which status; each of a failure, which has no score and says why."""
    results = [result for results in cohorts for result in results]
    assert all(result["score"] is None and result["explanation"] for result in results)
    return Counter(result["status"] for result in results)


async def undisturbed(judge: str) -> tuple[list[list[Any]], Counter[str]]:
    async with judging_at() as (port, server), gathering(port, judge) as url:
        found = scores(await scored(url))
        return found, Counter({digest: count for digest, count in server.answered.items() if count})


@pytest.mark.slow("tournament")
@each_judge
async def test_faults_that_pass_change_no_score_of_a_cohort_and_nothing_is_paid_twice(
    judge: str,
) -> None:
    expected, answered = await undisturbed(judge)
    mixed = [
        kind
        for kind in (*kinds.TRANSIENT, *kinds.RIGHT)
        if kind not in (*CHANGES_NOTHING, *kinds.WAITED_FOR)
    ]
    async with (
        judging_at(rates=dict.fromkeys(mixed, 0.5 / len(mixed))) as (port, server),
        gathering(port, judge) as url,
    ):
        found = scores(await scored(url))
        again = scores(await scored(url))
    assert found == again == expected
    assert sum(server.faults.values()) > 0
    assert (
        Counter({digest: count for digest, count in server.answered.items() if count}) == answered
    )


@pytest.mark.parametrize("kind", ["500", "401", "drop", "malformed", "empty", *kinds.LAST_WORD])
@each_judge
async def test_judge_that_never_has_a_verdict_flags_every_member(judge: str, kind: str) -> None:
    async with (
        judging_at(rates={kind: 1}) as (port, _),
        gathering(port, judge, "--judge_max_retries=1") as url,
    ):
        found = await scored(url)
    status = "unparsable" if kind in kinds.LAST_WORD else "judge_failed"
    assert failed(found) == {status: SIZE * COHORTS}


@each_judge
async def test_judge_that_hangs_flags_every_member_at_the_deadline(judge: str) -> None:
    deadline = "--deadline=1", "--group_wait=0.2"
    async with (
        judging_at(rates={"timeout": 1}) as (port, _),
        gathering(port, judge, *deadline) as url,
    ):
        found = await scored(url)
        alone = await scored(url, cohorts=1, members=[3])
    assert failed(found) == {"judge_failed": SIZE * COHORTS}
    assert failed(alone) == {"judge_failed": 1}, (
        "it has its place in the cohort that nobody could judge"
    )


@each_judge
async def test_games_and_calls_that_are_refused_cost_no_other_cohort_its_scores(judge: str) -> None:
    """A listwise call that is refused fails its cohort; a game that is refused fails no answer."""
    async with judging_at(rates={"400": 0.3}) as (port, server), gathering(port, judge) as url:
        found = await scored(url, cohorts=8)
    assert server.faults["400"] > 0
    for results in found:
        have = [result["score"] is not None for result in results]
        assert all(have) if judge == "tournament" else len(set(have)) == 1
    assert any(result["score"] is not None for results in found for result in results)


@pytest.mark.parametrize("patience", [(), ("--judge_deadline=900",)], ids=["fails", "goes_on"])
@each_judge
async def test_judge_that_is_away_flags_its_cohort_and_judges_it_when_it_is_back(
    judge: str, patience: tuple[str, ...]
) -> None:
    """Whether its judgment has failed or goes on: who sends again is told to come back, and then has a score."""
    expected, _ = await undisturbed(
        judge
    )  # loads what rates a tournament, which may take longer than the deadline
    with process.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    async with gathering(port, judge, "--deadline=10", "--group_wait=2", *patience) as url:
        first = failed(await scored(url, cohorts=1))
        assert (
            first["judge_failed"] > 0
            and first.total() == first["judge_failed"] + first["away"] == SIZE
        )
        assert failed(await scored(url, cohorts=1)) == {"away": SIZE}
        async with judging_at(port) as (_, server):
            found: list[list[Json]] = []
            for _ in range(int(10 * PATIENCE_S)):
                found = await scored(url, cohorts=1)
                if None not in scores(found)[0]:
                    break
                await asyncio.sleep(0.1)
    assert scores(found) == expected[:1]
    assert set(server.answered.values()) == {1}, "nothing is paid twice"


@each_judge
async def test_members_that_stay_away_leave_the_others_their_scores_and_are_flagged_when_they_come(
    judge: str,
) -> None:
    await undisturbed(
        judge
    )  # loads what rates a tournament, which may take longer than late members are known as such
    async with (
        judging_at() as (port, _),
        gathering(port, judge, "--deadline=20", "--group_wait=2") as url,
    ):
        found = await scored(url, members=[0, 1, 2])
        late = await scored(url, members=[3])
        alone = await scored(url, cohorts=COHORTS + 1, members=[3])
    assert all(None not in cohort for cohort in scores(found))
    assert failed(late) == {"judge_failed": COHORTS}
    assert failed(alone) == {"judge_failed": COHORTS + 1}
    assert all(result["explanation"].startswith("late: ") for (result,) in late)
    assert "1 of 4 members came" in alone[-1][0]["explanation"]
