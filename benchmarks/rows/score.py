"""`judgegym score` beside a plain aiohttp loop that sends the same requests, and its memory by the number of rows.

The command runs as a process, as a user starts it: rows of the shared data (`texts.py`) to a
stand-in without latency, a process of its own, with `--judge_base_url`. The loop (`plain.py`) sends
the bodies that the command's ledger has recorded, as many at once, on the same kind of event loop.
They take turns, each time with a new endpoint of the same
kind: the offline judge, which parses prompts and needs more CPU than the plain loop, and a lean one
that looks at nothing, where the loop's own CPU is what counts. Rows a second are those of the whole
command, from its start to its
exit, and of the judging alone: from the first line of the ledger of calls to the last one.

    python -m benchmarks.rows.score [--rows 10000 100000] [--rounds 3] [--judge rubric aspect]
    [--endpoints lean]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.measured import Measured, report, results_option
from benchmarks.rows.evaluate import endpoint as lean_endpoint
from benchmarks.rows.plain import Looped, posted, write_bodies
from benchmarks.rows.texts import is_shared, write_rows
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.recorded_calls import CALLS

PART = "score"
ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
LEAST_SHARE = 0.6
MOST_MIB = 300
MOST_GROWTH = 1.25
"""How much more memory ten times as many rows may take."""
_READY = "listening on "


@dataclass(frozen=True, slots=True)
class Command:
    """What a command took: seconds from its start to its exit, of judging and of CPU, and MiB at its most."""

    wall_s: float
    judging_s: float
    cpu_s: float
    memory_mib: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument(
        "--rounds",
        type=int,
        help="turns of each number of rows (default: 3 of 10,000, 1 of 100,000)",
    )
    parser.add_argument("--judge", nargs="+", default=["rubric"], help="kinds of judges")
    parser.add_argument("--endpoints", nargs="+", choices=ENDPOINTS, default=[*ENDPOINTS])
    parser.add_argument("--in_flight", type=int, default=64)
    parser.add_argument("--folder", type=Path, help="work here, on a disk with some GB")
    results_option(parser)
    options = parser.parse_args()
    print(
        "texts: "
        f"{'the shared data' if is_shared() else 'made up, since the shared data is not there'}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for judge in options.judge:
            turns = {rows: taken(Path(name), judge, rows, options) for rows in options.rows}
            for rows, by_endpoint in turns.items():
                for which, found in by_endpoint.items():
                    work = (
                        f"--judge {judge}, {rows} rows, {options.in_flight} at once, {which} "
                        "endpoint"
                    )
                    report(throughput(work, rows, found, which == OFFLINE), options.results)
            report(memory(judge, turns), options.results)


@dataclass(frozen=True, slots=True)
class Turn:
    """The command, and the loop after it."""

    command: Command
    loop: Looped


def taken(
    folder: Path, judge: str, rows: int, options: argparse.Namespace
) -> Mapping[str, Sequence[Turn]]:
    """The turns of each endpoint."""
    data, bodies, out = folder / "rows.jsonl", folder / "bodies.jsonl", folder / "scored.jsonl"
    write_rows(data, rows)
    bodies.unlink(missing_ok=True)
    turns: dict[str, list[Turn]] = {which: [] for which in options.endpoints}
    for _ in range(options.rounds or max(1, 30_000 // rows)):
        for which, found in turns.items():
            with ENDPOINTS[which]() as url:
                command = scored(data, out, url, options.in_flight, judge)
            if not bodies.exists():
                write_bodies(locate_run_directory(out), bodies)
            with ENDPOINTS[which]() as url:
                found.append(Turn(command, posted(bodies, url, options.in_flight)))
            print(f"{judge}, {rows} rows, {which}: {found[-1]}", flush=True)
    return turns


def throughput(work: str, rows: int, turns: Sequence[Turn], has_target: bool) -> Iterator[Measured]:
    """Rows a second, and CPU a row, beside the loop's."""
    name, at_least = "the same requests in a plain loop", LEAST_SHARE if has_target else None
    plain = rows / median(turn.loop.wall_s for turn in turns)
    whole = rows / median(turn.command.wall_s for turn in turns)
    judging = rows / median(turn.command.judging_s for turn in turns)
    yield Measured(
        PART, f"{work}: the whole command", "rows/s", whole, name, plain, at_least=at_least
    )
    yield Measured(
        PART, f"{work}: judging alone", "rows/s", judging, name, plain, at_least=at_least
    )
    each, bare = (
        median(cpu) / rows * 1000
        for cpu in zip(*((one.command.cpu_s, one.loop.cpu_s) for one in turns), strict=True)
    )
    yield Measured(PART, f"{work}: the whole command", "ms of CPU a row", each, name, bare)


def memory(judge: str, turns: Mapping[int, Mapping[str, Sequence[Turn]]]) -> Iterator[Measured]:
    """The command's memory at its most, by the number of rows."""
    most = {
        rows: max(turn.command.memory_mib for found in by_endpoint.values() for turn in found)
        for rows, by_endpoint in turns.items()
    }
    for rows, mib in most.items():
        work = f"--judge {judge}, {rows} rows"
        yield Measured(PART, work, "MiB at its most", mib, "the bound", MOST_MIB, at_most=1.0)
    for few, many in pairwise(most):
        work = f"--judge {judge}, {many} rows"
        yield Measured(
            PART, work, "MiB at its most", most[many], f"{few} rows", most[few], at_most=MOST_GROWTH
        )


def scored(data: Path, out: Path, url: str, in_flight: int, judge: str) -> Command:
    """Run the command afresh.

    Raises:
        RuntimeError: it failed.
    """
    run, log = locate_run_directory(out), out.with_suffix(".log")
    for path in (out, *(run.iterdir() if run.exists() else ())):
        path.unlink(missing_ok=True)
    words = [
        *(sys.executable, "-m", "judgegym", "score", data, f"--out={out}", f"--judge={judge}"),
        *(
            f"--judge_base_url={url}",
            "--judge_model_name=judge",
            f"--judge_max_concurrency={in_flight}",
        ),
    ]
    began = time.monotonic()
    with log.open("wb") as output:
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        process = subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=output, env=environment)
    first = last = 0.0
    ended = 0
    while not ended:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        changed = changed_at(run / CALLS)
        first, last = first or changed, changed or last
        time.sleep(0.01)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"judgegym score failed:\n{log.read_text()[-2000:]}")
    return Command(
        wall, last - first, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MIB
    )


def changed_at(path: Path) -> float:
    """When a file was last written to (seconds since the epoch); 0 if it is not there, or empty."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0.0
    return found.st_mtime if found.st_size else 0.0


@contextmanager
def offline_judge() -> Iterator[str]:
    """The offline judge as a process of its own; its base URL."""
    command: Sequence[str] = (sys.executable, "-m", "judgegym.offline", "--port=0", "--judge_only")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix(_READY)
    finally:
        process.kill()
        process.wait()


OFFLINE, LEAN = "offline", "lean"
ENDPOINTS = {OFFLINE: offline_judge, LEAN: lean_endpoint}

if __name__ == "__main__":
    main()
