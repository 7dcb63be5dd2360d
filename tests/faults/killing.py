"""A run that is stopped at some moment, by a signal or by its disk, and taken up again."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import Ended, RunFiles, Started
from tests.conformance.lab import Undisturbed
from tests.conformance.subjects import KEYS, Verb
from tests.faults.bench import Bench, Endpoint, stand_in

LATENCY_MS = 15.0
_IN_FLIGHT = re.compile(r"in flight\D*(\d+)")
_LIMITED = """
import os, resource, runpy, sys
from judgegym.engine.runs import disk
disk.DEADLINE_S = 0.1
resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["FILE_LIMIT"]), resource.RLIM_INFINITY))
sys.argv[0] = os.environ["SCRIPT"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Signal:
    """A signal when this share of the requests that are left has arrived, and at least one."""

    number: signal.Signals
    share: float


@dataclass(frozen=True)
class FullDisk:
    """No file can be longer than this."""

    size: int


Stop = Signal | FullDisk


@dataclass(frozen=True)
class Whole:
    """A run that nothing stopped: what it made, and how often each request arrived."""

    made: Path
    asked: Counter[str]

    @property
    def requests(self) -> int:
        return sum(self.asked.values())


@dataclass(frozen=True)
class TakenUp:
    """What a run cost that was stopped and taken up again.

    Attributes:
        made: the run directory, or the file of groups.
        stopped: how often it was stopped in mid-run.
        twice: answers that it got more often than a run that nothing stopped.
        said: how many requests it said were in flight, all times together.
        requests: all that arrived.
        faults: how often each kind of fault was met.
    """

    made: Path
    stopped: int
    twice: int
    said: int
    requests: int
    faults: Counter[str]


def made_by(bench: Bench, verb: Verb, run: str) -> Path:
    """Where a run's results are."""
    return bench.path / run if verb == "evaluate" else bench.path / f"{run}.jsonl"


def whole(bench: Bench, verb: Verb, run: str = "whole") -> Whole:
    """Run it without faults, as a process."""
    with stand_in(bench.loop) as policy, stand_in(bench.loop) as judge:
        argv = bench.argv(verb, run, policy, judge)
        with Started(str(bench.subject.script), *argv, cwd=bench.path, env=KEYS) as started:
            ended = started.ended()
    assert ended.code == 0, ended.said
    return Whole(made_by(bench, verb, run), policy.asked + judge.asked)


def taken_up(
    bench: Bench,
    verb: Verb,
    undisturbed: Whole,
    stops: Sequence[Stop],
    run: str,
    *flags: str,
    **endpoint: Any,
) -> TakenUp:
    """Stop a run, resume it, stop it again, …; then let it end.

    Args:
        bench: the rows.
        verb: what to run.
        undisturbed: the same without stops.
        stops: what stops it.
        run: the name of its results.
        flags: more of the command line.
        endpoint: the settings of both stand-ins.
    """
    limited = bench.path / "limited.py"
    limited.write_text(_LIMITED)
    said = stopped = 0
    settings = {"latency_ms": LATENCY_MS, **endpoint}
    with stand_in(bench.loop, **settings) as policy, stand_in(bench.loop, **settings) as judge:
        argv = [*bench.argv(verb, run, policy, judge), *flags]
        for place, stop in enumerate([*stops, None]):
            words, env = (
                [str(bench.subject.script), *argv, *(["--resume"] if place else [])],
                dict(KEYS),
            )
            if isinstance(stop, FullDisk):
                env |= {"FILE_LIMIT": str(stop.size), "SCRIPT": words[0]}
                words = [
                    str(limited),
                    *words[1:],
                ]
            before = policy.requests + judge.requests
            with Started(*words, cwd=bench.path, env=env) as started:
                if isinstance(stop, Signal):
                    left = stop.share * max(0, undisturbed.requests - before)
                    if _reached(started, policy, judge, before + max(1, left)):
                        started.send(stop.number)
                ended = started.ended()
            found = _IN_FLIGHT.search(ended.err)
            said += int(found[1]) if found else 0
            stopped += ended.code != 0
            _ended_as_told(ended, stop)
        asked, answered = policy.asked + judge.asked, policy.answered + judge.answered
        faults = policy.faults + judge.faults
    assert not undisturbed.asked - answered, "each request is answered"
    twice = (answered if faults else asked) - undisturbed.asked
    return TakenUp(
        made_by(bench, verb, run), stopped, sum(twice.values()), said, sum(asked.values()), faults
    )


def _ended_as_told(ended: Ended, stop: Stop | None) -> None:
    allowed = {0}
    if isinstance(stop, Signal):
        allowed |= {-stop.number, 128 + stop.number}
    if isinstance(stop, FullDisk):
        allowed |= {2}
    assert ended.code in allowed, f"exit code {ended.code} after {stop}: {ended.err[-1500:]}"
    assert "Traceback" not in ended.said, ended.err[-1500:]


def _reached(started: Started, policy: Endpoint, judge: Endpoint, count: float) -> bool:
    """Wait until so many requests have arrived; false if the run is over before."""
    while policy.requests + judge.requests < count:
        if started.process.poll() is not None:
            return False
        time.sleep(0.001)
    return started.process.poll() is None


def same(verb: Verb, undisturbed: Whole, other: TakenUp, *, ignoring: Sequence[str] = ()) -> None:
    """Samples, order, metrics and reports, or groups, are those of the undisturbed run."""
    if verb == "process":
        assert other.made.read_bytes() == undisturbed.made.read_bytes()
    else:
        expected = Undisturbed(RunFiles(undisturbed.made), Counter(), Counter())
        for kept_aside in other.made.glob(
            "*.damaged"
        ):  # a line that the stopped process was writing
            kept_aside.unlink()
        expected.same_results(RunFiles(other.made), ignoring=ignoring)
