"""A run that is stopped at any moment and resumed gives what an undisturbed one gives, and pays for little twice.

`python -m benchmarks.soak.stopped` does the same at thirty moments for each signal, and at fifty
sizes of the disk.
"""

from __future__ import annotations

import signal

import pytest

from tests.conformance.subjects import Verb
from tests.faults.bench import Bench
from tests.faults.killing import FullDisk, Signal, same, taken_up, whole

RESUMABLE: tuple[Verb, ...] = ("evaluate", "process")

each_verb = pytest.mark.parametrize("verb", RESUMABLE)


@pytest.mark.slow
@each_verb
def test_run_that_is_killed_three_times_pays_twice_for_what_was_in_flight(
    bench: Bench, verb: Verb
) -> None:
    undisturbed = whole(bench, verb)
    stops = [Signal(signal.SIGKILL, 0.4), Signal(signal.SIGTERM, 0.5), Signal(signal.SIGINT, 0.6)]
    two = bench.subject.limits(2) if verb == "evaluate" else ["--env.judge_max_concurrency=2"]
    resumed = taken_up(bench, verb, undisturbed, stops, "run", *two)
    assert resumed.stopped == len(stops)
    same(verb, undisturbed, resumed)
    assert resumed.twice <= resumed.said, "the number that it says is right"
    at_once = 2 if verb == "evaluate" else bench.rows
    assert resumed.said <= len(stops) * (at_once + 2), "policy and judge"


@pytest.mark.slow
@each_verb
def test_run_whose_disk_is_full_twice_gives_what_an_undisturbed_one_gives(
    bench: Bench, verb: Verb
) -> None:
    undisturbed = whole(bench, verb)
    largest = max(path.stat().st_size for path in bench.path.rglob("whole*/*.jsonl*"))
    stops = [FullDisk(share * largest // 5) for share in (1, 3)]
    resumed = taken_up(bench, verb, undisturbed, stops, "run")
    assert resumed.stopped > 0
    same(verb, undisturbed, resumed)
