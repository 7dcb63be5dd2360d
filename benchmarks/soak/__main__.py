"""Mixed traffic with all faults for some minutes: `python -m benchmarks.soak --minutes 10`.

Beside each other: commands of all environments that are stopped at random moments (kill −9,
SIGTERM, Ctrl-C, a full disk) and taken up again; `serve` with Atropos' rollout API and a trainer;
the reward server with its callers. All endpoints are stand-ins that fail one request of five, in
all ways that pass, and that are away at times. Rows, groups and rewards are compared with those of
endpoints without faults; memory and open files of the two servers are watched. The exit code is 1
if a row is lost, or is another one than without faults, or a server has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from benchmarks.soak.commands import MIXED, Commands
from benchmarks.soak.rewards import Rewards
from benchmarks.soak.tally import Tally
from benchmarks.soak.training import Training
from judgegym.offline.faults import Outage
from tests.conformance.subjects import SUBJECTS
from tests.faults.bench import Bench, Endpoint, Loop, stand_in

_FAULTS: dict[str, Any] = {
    "faults": dict.fromkeys(MIXED, 0.2 / len(MIXED)),
    "slow_ms": 200,
    "latency_ms": 5,
    "away": [Outage(number, 5) for number in range(500, 100_000, 2000)],
}


def soak(seconds: float, seed: int) -> Tally:
    """All traffic for some seconds."""
    tally, loop = Tally(), Loop()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        stand_in(loop) as whole,
        stand_in(loop, **_FAULTS) as rewarding,
        stand_in(loop, **_FAULTS) as policy,
        stand_in(loop, **_FAULTS) as judge,
    ):
        path = Path(name)
        subject = next(subject for subject in SUBJECTS if subject.title == "arena_hard")
        training = Training(Bench(subject, 64, path, loop), tally, policy, judge, seed)
        rewards = Rewards(tally, whole, rewarding, path, seed)
        threads = [
            _on_a_thread(traffic, tally)
            for traffic in (training.run(seconds), rewards.run(seconds))
        ]
        Commands(loop, tally, seed).until(time.monotonic() + seconds)
        for thread in threads:
            thread.join()
        _count(tally, rewarding, policy, judge)
    loop.close()
    return tally


def _on_a_thread(traffic: Coroutine[Any, Any, None], tally: Tally) -> threading.Thread:
    def run() -> None:
        try:
            asyncio.run(traffic)
        except Exception as error:  # noqa: BLE001  # whatever it is, the soak has found it
            tally.fail(f"{traffic!r}: {error!r}")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _count(tally: Tally, *endpoints: Endpoint) -> None:
    for endpoint in endpoints:
        tally.counts["requests"] += endpoint.requests
        tally.faults.update(endpoint.faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="how long (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the moments and the mixtures (default: %(default)s)"
    )
    options = parser.parse_args()
    os.nice(10)
    tally = soak(options.minutes * 60, options.seed)
    print(tally.summary())
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
