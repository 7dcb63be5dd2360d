"""CPU from a fresh clone to the first row: `.ci/install` (uv), beside pip as `make` used it before.

Both install the same extra at the same pins into a new environment of a copy of this checkout, from caches that a round
before has filled, and then evaluate one row offline: pip compiles all bytecode while it installs, and uv leaves it to
the first import. Ours is measured twice: with the uv on PATH (if there is one), and with the one that pip fetches.

    python -m benchmarks.set_up [--extra environments] [--rounds 1] [--python python3] [--results FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measured import Measured, report, results_option
from benchmarks.set_up.cpu import cpu_seconds

ROOT = Path(__file__).resolve().parents[2]
FIRST_ROW = (".venv/bin/python", "eval_environments/arena_hard_environment.py", "evaluate", "--offline", "--limit=1")
PIP = "pip"
Way = Callable[[Path], float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", default="environments", help="what is installed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="after the one that fills the caches")
    parser.add_argument("--python", default=getattr(sys, "_base_executable", sys.executable))
    results_option(parser)
    options = parser.parse_args()
    with without_uv() as hidden:
        ways = ways_of(options.extra, options.python, hidden)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for name, way in ways.items():
                seconds = in_copy(way)
                note = "" if number else " (fills the caches)"
                print(f"round {number}, {name}: {seconds:.1f} s of CPU{note}", flush=True)
                if number:
                    times[name].append(seconds)
    other = statistics.median(times.pop(PIP))
    lines = []
    for name, found in times.items():
        work = f"fresh install of [{options.extra}] and first row, {name}, from caches"
        peer = "pip, same pins, from its cache"
        lines.append(Measured("set-up", work, "s of CPU", statistics.median(found), peer, other))
    report(lines, options.results)


def ways_of(extra: str, python: str, hidden: Mapping[str, str]) -> dict[str, Way]:
    """The ways to install, by name; each gives its CPU seconds."""

    def ours(variables: Mapping[str, str]) -> Way:
        environment = {**os.environ, **variables, "PYTHON": python}
        return lambda copy: cpu_seconds((".ci/install", extra), copy, environment)

    def pip(copy: Path) -> float:
        install = ("-m", "pip", "install", "-qq", "-c", "constraints.txt", "-e", f".[{extra}]")
        created = cpu_seconds((python, "-m", "venv", ".venv"), copy, os.environ)
        return created + cpu_seconds((".venv/bin/python", *install), copy, os.environ)

    ways = {"uv that pip fetches": ours(hidden), PIP: pip}
    found = subprocess.run(["sh", "-c", "uv --version"], capture_output=True).returncode == 0
    return {"uv on PATH": ours({}), **ways} if found else ways


@contextmanager
def without_uv() -> Iterator[Mapping[str, str]]:
    """Variables with which the uv on PATH does not run."""
    with tempfile.TemporaryDirectory() as folder:
        hiding = Path(folder) / "uv"
        hiding.write_text("#!/bin/sh\nexit 127\n")
        hiding.chmod(0o755)
        yield {"PATH": f"{folder}:{os.environ['PATH']}"}


def in_copy(way: Way) -> float:
    """The CPU seconds of an installation into a copy of the checkout, and of its first row."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "judgegym"
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():  # and not deleted
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        return way(copy) + cpu_seconds(FIRST_ROW, copy, os.environ)


if __name__ == "__main__":
    main()
