"""A judge, a policy and a rollout API that are away for a minute: `python -m benchmarks.soak.away`.

`evaluate`, `process` and `serve` with an endpoint that refuses connections from the middle of the
run on, and `serve` with a rollout API that answers 500 to 70 % of its requests. No row and no group
may be lost, or the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from judgegym.offline.faults import Outage
from tests.arena import Arena
from tests.conformance.subjects import SUBJECTS, Verb
from tests.core.serve.test_api_away import numbers
from tests.faults.bench import Bench, Loop, Outcome
from tests.proxy import MisbehavingProxy
from tests.serving import Served, serve
from tests.trainer import Trainer, training

ROWS = 40


def endpoint_away(
    bench: Bench, verb: Verb, side: str, undisturbed: Outcome, seconds: float
) -> bool:
    """Run it with an endpoint that is away, and print whether anything is lost."""
    middle = getattr(undisturbed, side).requests // 2
    begun = time.monotonic()
    away: dict[str, Any] = {side: {"away": [Outage(middle, seconds)]}}
    outcome = bench.run(verb, run=f"{side}-away", **away)
    lost = len(undisturbed.result) - len(outcome.result)
    is_same = outcome.result == undisturbed.result and outcome.ended.code == 0
    waiting = [
        line for line in outcome.ended.err.splitlines() if "refuse" in line or "away" in line
    ]
    print(
        f"{verb}, {side} away for {seconds:g} s: {len(outcome.result)} of "
        f"{len(undisturbed.result)} in "
        f"{time.monotonic() - begun:.1f} s, {lost} lost, "
        f"{'the same' if is_same else 'NOT THE SAME'}; requests "
        f"{outcome.policy.requests + outcome.judge.requests}, undisturbed "
        f"{undisturbed.policy.requests + undisturbed.judge.requests}; it said: {waiting[:1]}",
        flush=True,
    )
    if not is_same:
        print(outcome.ended.err[-3000:])
    return is_same


async def rollout_api_fails(path: Path, seconds: float) -> bool:
    """Serve with a rollout API that answers 500 to 70 %, half of the time after it has done what it was asked."""
    arena = Arena(path).rows(8)
    flags = "--env.max_batches_offpolicy=2", "--env.include_messages=True"
    async with (
        training(8) as trainer,
        MisbehavingProxy(trainer.url, seed=1) as proxy,
        serve(arena, proxy.url, *flags) as served,
    ):
        await trainer.take(2)
        proxy.rate = 0.7
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await trainer.poll()
            await asyncio.sleep(0.05)
        proxy.rate = 0.0
        lost, doubles = await _lost(trainer, served)
        status = await trainer.call(
            "GET", "/status-env", {"env_id": served.connection.registration.env_id}
        )
        counted = served.serving._delivery.maybe_double
    share, failed = status["env_weight"], sum(map(sum, proxy.failed.values()))
    is_right = not lost and doubles <= counted and share == 1.0
    print(
        f"serve, rollout API at 70 % for {seconds:g} s: {len(served.policy.requests)} groups, "
        f"{failed} answers failed, "
        f"{len(lost)} lost, {doubles} double, {counted} said to be maybe double, share {share:g}, "
        f"{'right' if is_right else 'WRONG'}",
        flush=True,
    )
    return is_right


async def _lost(trainer: Trainer, served: Served) -> tuple[set[int], int]:
    """Groups that the policy was asked for until now and that no batch holds, and how many came twice."""
    wanted = set(range(1, len(served.policy.requests) + 1))
    found: list[int] = []
    for _ in range(20):
        await trainer.take(1)
        found = [number for batch in trainer.batches for number in numbers(batch)]
        if wanted <= set(found):
            break
    return wanted - set(found), len(found) - len(set(found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.away", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long (default: %(default)s)"
    )
    parser.add_argument("--verbs", nargs="+", default=["evaluate", "process", "serve"])
    options = parser.parse_args()
    os.nice(10)
    loop = Loop()
    subject = next(subject for subject in SUBJECTS if subject.title == "arena_hard")
    right = True
    for verb in options.verbs:
        with tempfile.TemporaryDirectory(prefix="away-") as name:
            bench = Bench(subject, ROWS, Path(name), loop)
            undisturbed = bench.run(verb)
            for side in ("judge", "policy"):
                right = endpoint_away(bench, verb, side, undisturbed, options.seconds) and right
    if "serve" in options.verbs:
        with tempfile.TemporaryDirectory(prefix="away-") as name:
            right = asyncio.run(rollout_api_fails(Path(name), options.seconds)) and right
    loop.close()
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
