"""Runs that are stopped at random moments and taken up again: `python -m benchmarks.soak.stopped`.

For each verb that resumes: kill −9, SIGTERM and Ctrl-C at thirty random moments each, and a disk
that is full at fifty random sizes. Results, order and metrics must be those of a run that nothing
stopped, and no more requests be paid for twice than the run says were in flight. The exit code is 1
if that is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.soak.commands import SIGNALS, VERBS
from tests.conformance.subjects import SUBJECTS, Verb
from tests.faults.bench import Bench, Loop
from tests.faults.killing import FullDisk, Signal, Stop, same, taken_up, whole


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.stopped", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=30, help="moments for each signal (default: %(default)s)"
    )
    parser.add_argument(
        "--disks", type=int, default=50, help="sizes of the disk (default: %(default)s)"
    )
    parser.add_argument("--rows", type=int, default=30, help="rows of a run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    parser.add_argument("--environment", default="arena_hard", help="(default: %(default)s)")
    parser.add_argument("--verbs", nargs="+", default=VERBS, choices=VERBS)
    options = parser.parse_args()
    os.nice(10)
    rng, loop, wrong = random.Random(options.seed), Loop(), 0
    subject = next(subject for subject in SUBJECTS if subject.title == options.environment)
    for verb in options.verbs:
        with tempfile.TemporaryDirectory(prefix="stopped-") as path:
            bench = Bench(subject, options.rows, Path(path), loop)
            for number in SIGNALS:
                stops = [Signal(number, rng.random()) for _ in range(options.kills)]
                wrong += _stopped(bench, verb, number.name, stops)
            wrong += _stopped(bench, verb, "full disk", _sizes(bench, verb, rng, options.disks))
    loop.close()
    return int(wrong > 0)


def _sizes(bench: Bench, verb: Verb, rng: random.Random, count: int) -> list[Stop]:
    made = whole(bench, verb, "sizes").made
    files = list(made.parent.rglob("*.jsonl*"))
    largest = max(file.stat().st_size for file in files if "sizes" in str(file))
    return [FullDisk(rng.randrange(1, largest)) for _ in range(count)]


def _stopped(bench: Bench, verb: Verb, name: str, stops: Sequence[Stop]) -> int:
    """Stop a run at each of these moments, print what it cost; returns how many runs are not as they must be."""
    undisturbed = whole(bench, verb, f"whole-{name}")
    stopped = twice = said = wrong = 0
    for number, stop in enumerate(stops):
        try:
            resumed = taken_up(bench, verb, undisturbed, [stop], f"{name}-{number}")
            same(verb, undisturbed, resumed)
            assert isinstance(stop, FullDisk) or resumed.twice <= resumed.said, (
                f"{resumed.twice} > {resumed.said}"
            )
        except AssertionError as error:
            wrong += 1
            print(f"WRONG: {verb}, {stop}: {str(error)[:2000]}", flush=True)
            continue
        stopped, twice, said = stopped + resumed.stopped, twice + resumed.twice, said + resumed.said
    print(
        f"{verb}, {name}: {len(stops)} runs, {stopped} stopped in mid-run, {wrong} wrong; requests "
        "in each "
        f"{undisturbed.requests}, paid for twice in all {twice}, said to be in flight {said}",
        flush=True,
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
