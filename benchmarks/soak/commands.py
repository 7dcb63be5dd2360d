"""Traffic of commands: evaluations and group files of all environments, with faults, stopped and taken up again."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.soak.tally import Tally
from judgegym.offline.faults import Outage
from tests.command import RunFiles
from tests.conformance.subjects import SUBJECTS, Subject, Verb
from tests.faults import kinds
from tests.faults.bench import Bench, Loop
from tests.faults.killing import FullDisk, Signal, Stop, Whole, taken_up, whole

SIGNALS = signal.SIGKILL, signal.SIGTERM, signal.SIGINT
VERBS: tuple[Verb, ...] = ("evaluate", "process")
MIXED = [
    kind
    for kind in (*kinds.TRANSIENT, *kinds.RIGHT)
    if kind not in ("no_finish", *kinds.CHANGES_THE_REQUESTS)
]
ROWS = 24


class Commands:
    """Runs one command after the other."""

    def __init__(self, loop: Loop, tally: Tally, seed: int) -> None:
        self._loop = loop
        self._tally = tally
        self._rng = random.Random(seed)
        self._path = Path(tempfile.mkdtemp(prefix="soak-"))
        self._whole: dict[tuple[str, Verb], tuple[Bench, Whole]] = {}

    def until(self, end: float) -> None:
        """Go on until a moment of the monotonic clock."""
        number = 0
        while time.monotonic() < end:
            number += 1
            self.one(f"run-{number}")
        shutil.rmtree(self._path)

    def one(self, run: str) -> None:
        """One command of a random environment, stopped up to three times."""
        subject, verb = self._rng.choice(SUBJECTS), self._rng.choice(VERBS)
        bench, undisturbed = self._of(subject, verb)
        stops = [self._stop(undisturbed) for _ in range(self._rng.randrange(4))]
        faults = dict.fromkeys(MIXED, 0.2 / len(MIXED))
        away = [
            Outage(self._rng.randrange(1, undisturbed.requests), self._rng.uniform(0.2, 3))
        ] * self._rng.randrange(2)
        what = f"{subject.title} {verb}, {stops}"
        try:
            ended = taken_up(
                bench,
                verb,
                undisturbed,
                stops,
                run,
                *_PATIENCE,
                faults=faults,
                away=away,
                slow_ms=200,
                latency_ms=5,
            )
        except AssertionError as error:
            self._tally.fail(f"{what}: {error}")
            return
        self._tally.counts[f"{verb} runs"] += 1
        self._tally.counts["stops"] += ended.stopped
        self._tally.counts["requests"] += ended.requests
        self._tally.faults.update(ended.faults)
        self._compare(verb, undisturbed, ended.made, what)
        if (
            ended.twice > ended.said and not away
        ):  # an endpoint that goes takes answers along that it has counted
            self._tally.fail(
                f"{what}: {ended.twice} requests were paid twice, and it said {ended.said}"
            )
        shutil.rmtree(ended.made) if ended.made.is_dir() else ended.made.unlink()

    def _compare(self, verb: Verb, undisturbed: Whole, made: Path, what: str) -> None:
        """Count rows that are missing, and those that are others than without faults."""
        if verb == "evaluate":
            expected, found = (RunFiles(path).without_run() for path in (undisturbed.made, made))
        else:
            expected, found = (path.read_bytes().splitlines() for path in (undisturbed.made, made))
        self._tally.counts["rows"] += len(found)
        if len(found) != len(expected):
            self._tally.counts["rows lost"] += len(expected) - len(found)
            self._tally.fail(f"{what}: {len(expected)} rows without faults, {len(found)} with them")
        elif found != expected:
            different = sum(one != other for one, other in zip(expected, found, strict=True))
            self._tally.counts["unflagged failures"] += different
            self._tally.fail(f"{what}: {different} rows are others than without faults")

    def _of(self, subject: Subject, verb: Verb) -> tuple[Bench, Whole]:
        key = subject.title, verb
        if key not in self._whole:
            path = self._path / f"{subject.title}-{verb}"
            path.mkdir()
            bench = Bench(subject, ROWS, path, self._loop)
            self._whole[key] = bench, whole(bench, verb)
        return self._whole[key]

    def _stop(self, undisturbed: Whole) -> Stop:
        if self._rng.random() < 0.25:
            made = undisturbed.made
            files = list(made.iterdir()) if made.is_dir() else [made]
            return FullDisk(self._rng.randrange(1, max(file.stat().st_size for file in files)))
        return Signal(self._rng.choice(SIGNALS), self._rng.random())


_PATIENCE = ("--env.judge_timeout=5", "--openai.timeout=5")
