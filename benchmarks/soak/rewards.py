"""Traffic of the reward server: requests of callers, its judge full of faults, its scores as without them."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.soak.tally import Tally
from benchmarks.soak.watched import Measured
from tests.command import Started
from tests.faults.bench import Endpoint
from tests.trainer import free_port

_ITEMS = 200
_AT_ONCE = 8


class Rewards:
    """Callers that ask for the same few hundred scores again and again."""

    def __init__(
        self, tally: Tally, whole: Endpoint, faulty: Endpoint, path: Path, seed: int
    ) -> None:
        self._tally = tally
        self._whole = whole
        self._faulty = faulty
        self._path = path
        self._rng = random.Random(seed)
        self._scores: dict[int, float] = {}
        self._early: Measured | None = None

    async def run(self, seconds: float) -> None:
        """Learn the scores of a judge without faults, and compare those of one with faults for some seconds."""
        async with aiohttp.ClientSession() as session:
            with _Server(self._whole, self._path) as (url, started):
                await self._up(session, url, started)
                for number in range(_ITEMS):
                    answer = await self._score(session, url, number)
                    self._scores[number] = answer["score"]
            with _Server(self._faulty, self._path) as (url, started):
                await self._up(session, url, started)
                await self._compare(session, url, started, seconds)
                late = Measured.of(started.process.pid)
        self._tally.watched["reward server"] = self._early or late, late

    async def _compare(
        self, session: aiohttp.ClientSession, url: str, started: Started, seconds: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()

        async def caller() -> None:
            while clock() < begun + seconds:
                number = self._rng.randrange(_ITEMS)
                answer = await self._score(session, url, number)
                self._tally.counts["rewards"] += 1
                if answer.get("score") is None:
                    self._tally.counts["rows lost"] += 1
                    self._tally.fail(f"the reward server gave no score: {answer}")
                elif answer["score"] != self._scores[number]:
                    self._tally.counts["unflagged failures"] += 1
                    self._tally.fail(
                        f"a score is {answer['score']}, without faults {self._scores[number]}"
                    )
                if self._early is None and clock() > begun + max(10.0, seconds / 10):
                    self._early = Measured.of(started.process.pid)
                await asyncio.sleep(0.1)

        await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))

    async def _score(self, session: aiohttp.ClientSession, url: str, number: int) -> dict[str, Any]:
        body = {
            "prompt": f"How would you explain row-{number} to a child?",
            "response": f"A child knows row-{number} from an example, "
            + "and another one " * (number % 7),
            "rubric": "Does a child understand it?",
            "reference": f"There is row-{number}, a child, and an example that explains it.",
        }
        async with session.post(f"{url}/v1/score", json=body) as response:
            text = await response.text()
            if response.status != 200:
                return {"status": response.status, "text": text[:300]}
            answer: dict[str, Any] = await response.json()
            return answer["results"][0] if "results" in answer else answer

    async def _up(self, session: aiohttp.ClientSession, url: str, started: Started) -> None:
        while True:
            assert started.process.poll() is None, "the reward server does not start"
            try:
                async with session.get(f"{url}/healthz"):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)


class _Server:
    """A reward server as a process."""

    def __init__(self, judge: Endpoint, path: Path) -> None:
        self._url = f"http://127.0.0.1:{(port := free_port())}"
        flags = (
            f"--port={port}",
            f"--judge_base_url={judge.base_url}",
            "--judge_model_name=offline-judge",
        )
        self._started = Started(
            "-m", "judgegym.server", *flags, "--judge_temperature=0", "--judge_timeout=5", cwd=path
        )
        self._log = threading.Thread(target=self._started.process.communicate, daemon=True)

    def __enter__(self) -> tuple[str, Started]:
        self._log.start()
        return self._url, self._started

    def __exit__(self, *exception: object) -> None:
        self._started.send(signal.SIGTERM)
        self._log.join()
