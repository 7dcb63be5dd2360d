"""Traffic of training: `serve` as a process, Atropos' rollout API behind a stretch of bad road, and a trainer."""

from __future__ import annotations

import asyncio
import math
import random
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.soak.tally import Tally
from benchmarks.soak.watched import Measured
from tests.command import Started
from tests.conformance.subjects import KEYS
from tests.faults.bench import GROUP, Bench, Endpoint
from tests.scripted import Recorded, Reply
from tests.trainer import RunApi, ScriptedServer, Trainer, passing_on

GROUPS_OF_A_STEP = 4
_BAD_ROAD = 0.05
_SERVING = (
    "--env.total_steps=1000000",
    "--env.max_batches_offpolicy=4",
    "--env.include_messages=True",
    "--openai.timeout=5",
    "--env.judge_timeout=5",
)


class Training:
    """A trainer that takes batches for as long as the soak lasts."""

    def __init__(
        self, bench: Bench, tally: Tally, policy: Endpoint, judge: Endpoint, seed: int
    ) -> None:
        self._bench = bench
        self._tally = tally
        self._endpoints = policy, judge
        self._rng = random.Random(seed)
        self._batches = 0
        self._early: Measured | None = None

    async def run(self, seconds: float) -> None:
        """Serve and train for some seconds."""
        async with self._api() as (url, trainer):
            await trainer.register(GROUPS_OF_A_STEP * GROUP, num_steps=10**6)
            argv = [
                flag
                for flag in self._bench.argv("serve", "serve", *self._endpoints)
                if flag.partition("=")[0] not in {given.partition("=")[0] for given in _SERVING}
            ]
            words = (
                str(self._bench.subject.script),
                *argv,
                f"--env.rollout_server_url={url}",
                *_SERVING,
            )
            with Started(*words, cwd=self._bench.path, env=KEYS) as started:
                log = asyncio.create_task(asyncio.to_thread(started.process.communicate))
                await self._train(trainer, started, seconds)
                late = Measured.of(started.process.pid)
                started.send(signal.SIGTERM)
                _, err = await log
                self._ended(started, late, err.decode())

    async def _train(self, trainer: Trainer, started: Started, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()
        while clock() < begun + seconds:
            if started.process.poll() is not None:
                self._tally.fail("serve ended by itself")
                return
            if self._early is None and clock() > begun + max(10.0, seconds / 10):
                self._early = Measured.of(started.process.pid)
            batch = await trainer.poll()
            if batch is None:
                await asyncio.sleep(0.05)
                continue
            trainer.batches.clear()
            self._batches += 1
            self._tally.counts["groups trained on"] += len(batch)
            for group in batch:
                self._check(group)

    def _check(self, group: dict[str, Any]) -> None:
        sizes = {len(group[name]) for name in ("tokens", "masks", "scores", "inference_logprobs")}
        if sizes != {GROUP} or not all(math.isfinite(score) for score in group["scores"]):
            self._tally.counts["unflagged failures"] += 1
            self._tally.fail(f"a group is not whole: sizes {sizes}, scores {group['scores']}")
        if any("BROKEN OFF" in turns[-1]["content"] for turns in group["messages"]):
            self._tally.counts["unflagged failures"] += 1
            self._tally.fail("a broken-off answer was trained on")

    def _ended(self, started: Started, late: Measured, log: str) -> None:
        if started.process.returncode != 128 + signal.SIGTERM or "Traceback" in log:
            self._tally.fail(f"serve ended with {started.process.returncode}: {log[-2000:]}")
        lost = [line for line in log.splitlines() if re.search("is dropped|is refused", line)]
        self._tally.counts["rows lost"] += len(lost)
        if lost:
            self._tally.fail(f"{len(lost)} groups were dropped, such as: {lost[0]}")
        if self._batches == 0:
            self._tally.fail("the trainer got no batch")
        self._tally.watched["serve"] = self._early or late, late

    @asynccontextmanager
    async def _api(self) -> AsyncIterator[tuple[str, Trainer]]:
        """The rollout API behind a proxy that fails at times, and a trainer that has a good road to it."""

        def instead(request: Recorded) -> Reply | None:
            if self._rng.random() >= _BAD_ROAD:
                return None
            self._tally.faults["rollout API"] += 1
            return self._rng.choice(
                [Reply(status=500), Reply(status=502, body="<html>"), Reply(drop=True)]
            )

        async with (
            RunApi() as real,
            aiohttp.ClientSession() as session,
            ScriptedServer(passing_on(real.url, session, instead)) as proxy,
        ):
            yield proxy.url, Trainer(real.url, session)
