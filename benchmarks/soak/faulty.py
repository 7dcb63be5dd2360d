"""Five hundred rows with endpoints that fail one request of five: `python -m benchmarks.soak.faulty`.

All kinds that pass at once, and the default retries, pauses and deadlines. All rows must be scored,
the results be those of endpoints without faults, and no answered request be sent again, or the exit
code is 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.soak.commands import MIXED
from tests.conformance.subjects import SUBJECTS, Verb
from tests.faults.bench import Bench, Loop

VERBS: tuple[Verb, ...] = ("evaluate", "serve", "process")


@dataclasses.dataclass(frozen=True)
class DefaultPauses(Bench):
    """Rows that are run with the default pauses between retries."""

    def flags(self, verb: Verb, run: str) -> list[str]:
        return [
            flag for flag in super().flags(verb, run) if not flag.startswith("--env.retry_delay")
        ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.faulty", description=__doc__)
    parser.add_argument("--rows", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.2, help="of faults (default: %(default)s)")
    parser.add_argument("--environment", default="arena_hard", help="(default: %(default)s)")
    parser.add_argument("--verbs", nargs="+", default=VERBS, choices=VERBS)
    options = parser.parse_args()
    os.nice(10)
    loop, right = Loop(), True
    subject = next(subject for subject in SUBJECTS if subject.title == options.environment)
    kinds = [kind for kind in MIXED if kind != "timeout"]  # at the default time-out of minutes
    endpoint = {
        "faults": dict.fromkeys(kinds, options.rate / len(kinds)),
        "slow_ms": 200,
        "latency_ms": 5,
    }
    for verb in options.verbs:
        with tempfile.TemporaryDirectory(prefix="faulty-") as path:
            bench = DefaultPauses(subject, options.rows, Path(path), loop)
            undisturbed = bench.run(verb, run="whole")
            begun = time.monotonic()
            outcome = bench.run(verb, policy=endpoint, judge=endpoint)
        again = sum((outcome.answered - undisturbed.answered).values())
        is_same = outcome.result == undisturbed.result
        right = right and is_same and not again and outcome.ended.code == 0
        print(
            f"{verb}: {len(outcome.result)} of {len(undisturbed.result)} in "
            f"{time.monotonic() - begun:.0f} s, "
            f"{'the same' if is_same else 'NOT THE SAME'}, exit code {outcome.ended.code}; "
            f"{sum(outcome.asked.values())} requests, {outcome.faults.total()} faults of "
            f"{len(outcome.faults)} kinds, "
            f"{again} answered requests sent again",
            flush=True,
        )
        if not is_same:
            print(outcome.ended.err[-2000:])
    loop.close()
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
