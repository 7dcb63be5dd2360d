"""The reward server under Ray's own command `serve run`: started, asked, scaled to two replicas, drained."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.core.server.running import running
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.ray.cluster_of_one import Cluster, cluster

PROMPT = "Why is the sky blue during the day and red in the evening?"
SENTENCES = (
    "It is so.",
    "The sky is blue during the day.",
    "Air scatters blue light more than red light, so the sky is blue during the day; in the "
    "evening the light has lost "
    "its blue, and the sky is red.",
    "Red in the evening because sunlight then takes a longer path through air.",
)
ASKED, FEW, PLANTED, DOWN, LAST = (  # other texts each time: a replica remembers what it has judged
    [f"{SENTENCES[number % len(SENTENCES)]} ({time}, {number})" for number in range(many)]
    for time, many in enumerate((48, 12, 48, 48, 48))
)
TRIES = 600
pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * trainers.PATIENCE_S)]


class HeldJudge:
    """The offline judge, which answers while it is let."""

    def __init__(self) -> None:
        self.now = OfflineJudge()
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, request: Json, number: int) -> Reply | str:
        await asyncio.wait_for(
            self.answers.wait(), 3 * trainers.PATIENCE_S
        )  # a test that failed does not open it
        return self.now(request, number)


class Asking:
    """A caller of the application, and the judge behind it."""

    def __init__(
        self, served: Cluster, session: aiohttp.ClientSession, judge: HeldJudge, endpoint: Any
    ) -> None:
        self.url, self.session, self.judge, self.endpoint = served.url, session, judge, endpoint

    async def score(self, text: str) -> Any:
        body = {"prompt": PROMPT, "response": text}
        async with self.session.post(f"{self.url}/v1/score", json=body) as answer:
            assert answer.status == 200
            return await answer.json()

    async def scores(self, texts: list[str]) -> list[Any]:
        return [each["score"] for each in await asyncio.gather(*map(self.score, texts))]

    async def held(self, texts: list[str]) -> asyncio.Future[list[Any]]:
        """The scores of texts, all of which are with the judge, which does not answer yet."""
        self.judge.answers.clear()
        before = len(self.endpoint.requests)
        asked = asyncio.ensure_future(self.scores(texts))
        await self.endpoint.arrived(before + len(texts))
        return asked

    async def replicas(self) -> dict[str, float]:
        """How many judgments each replica has given that takes requests; the proxy asks them by chance.

        A replica is known by when it began to count, one that has judged nothing as "".
        """
        seen: dict[str, float] = {}
        for _ in range(80):
            async with self.session.get(f"{self.url}/metrics") as answer:
                text = await answer.text()
            began = re.findall(r"^judgegym_responses_created\{.*\} (\S+)$", text, re.MULTILINE)
            counted = re.findall(r"^judgegym_responses_total\{.*\} (\S+)$", text, re.MULTILINE)
            seen[min(began, default="")] = sum(map(float, counted))
        return seen

    async def until(self, is_so: Callable[[dict[str, float]], bool]) -> None:
        """Wait until the replicas that take requests are as wanted."""
        for _ in range(TRIES):
            if is_so(await self.replicas()):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the replicas did not become as wanted")


async def ours(texts: list[str]) -> list[float]:
    """The scores of a server in one process, whose judge answers alike."""
    async with running(judge=OfflineJudge()) as server:
        answers = [
            await server.post("/v1/score", {"prompt": PROMPT, "response": text}) for text in texts
        ]
    return [answer.json["score"] for answer in answers]


async def test_started_asked_scaled_to_two_replicas_and_drained(tmp_path: Path) -> None:
    texts = [*ASKED, *FEW, *PLANTED, *DOWN, *LAST]
    expected = dict(zip(texts, await ours(texts), strict=True))
    assert len(set(expected.values())) > 2
    judge = HeldJudge()
    async with (
        cluster(tmp_path) as served,
        ScriptedEndpoint(judge) as endpoint,
        aiohttp.ClientSession() as session,
    ):
        asking = Asking(served, session, judge, endpoint)
        command = swap(
            example("Ray Serve", "bash", 1), ("http://127.0.0.1:8001/v1", endpoint.base_url)
        )
        more = (
            "judge_max_retries=0",
            "deadline=300",
            "drain_timeout=310",
            "judge_model_name=the-judge",
        )  # the stand-in reads the name, too
        async with served.serving(command, *more, "max_replicas=1"):
            assert await asking.scores(ASKED) == [expected[text] for text in ASKED]
            assert [*(await asking.replicas()).values()] == [len(ASKED)]

            # Two replicas of the next version, while the first one has requests: it answers them
            # before it ends.
            asked = await asking.held(FEW)
            scaling = asyncio.create_task(
                served.run(command, "--non-blocking", *more, "min_replicas=2", "max_replicas=2")
            )
            await asking.until(lambda counts: [*counts] == [""])
            assert not asked.done()
            judge.answers.set()
            assert await asked == [expected[text] for text in FEW]
            code, said = await scaling
            assert code == 0, said

            # Both replicas answer; with every third answer of the judge refused, no number is in
            # its place.
            judge.now = planted = OfflineJudge(every_third_fails=True)
            results = await asyncio.gather(*map(asking.score, PLANTED))
            failed = [each for each in results if each["status"] == "judge_failed"]
            assert len(failed) == len(planted.failed) == len(PLANTED) // 3
            for text, each in zip(PLANTED, results, strict=True):
                assert each["score"] == (None if planted.has_failed(text) else expected[text])
            shares = await asking.replicas()
            assert (len(shares), sum(shares.values())) == (2, len(PLANTED))

            # Down to one. Ray stops one of the two at first: it takes no more requests, and answers
            # those that it has.
            judge.now = OfflineJudge()
            asked = await asking.held(DOWN)
            code_and_words = asyncio.create_task(
                served.run(command, "--non-blocking", *more, "max_replicas=1")
            )
            await asking.until(lambda counts: len(counts) == 1 and counts.keys() < shares.keys())
            assert not asked.done()
            judge.answers.set()
            assert await asked == [expected[text] for text in DOWN]
            assert (await code_and_words)[0] == 0
            await asking.until(lambda counts: [*counts] == [""])

            # The end: the application is deleted, and requests in flight are answered, too.
            asked = await asking.held(LAST)
            deleting = asyncio.create_task(served.run(example("Ray Serve", "bash", 2)))
            await refusing(asking)
            assert not asked.done()
            judge.answers.set()
            assert await asked == [expected[text] for text in LAST]
            code, said = await deleting
            assert code == 0, said


async def refusing(asking: Asking) -> None:
    """Wait until new requests are refused."""
    for _ in range(TRIES):
        try:
            async with asking.session.get(f"{asking.url}/healthz") as answer:
                if answer.status != 200:
                    return
        except aiohttp.ClientError:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the application still takes requests")
