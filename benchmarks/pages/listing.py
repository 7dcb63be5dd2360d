"""The time that the list of all runs takes, as a browser gets it from `judgegym view`: 200 runs, half a second at most.

Runs are copies of one of Arena-Hard (`evaluate --offline`), unfinished ones among them. The server
is a process of its own; the time is that of one request to its end, the median of the rounds.

    python -m benchmarks.pages.listing [--runs 200] [--rounds 7] [--results FILE]
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks.measured import Measured, report, results_option

LIMIT_S = 0.5
UNFINISHED = 10
"""One run of so many is unfinished."""
ENTRY = "eval_environments/arena_hard_environment.py"


def make_runs(folder: Path, count: int) -> None:
    """Write a run and its copies."""
    first = folder / "run-0"
    words = [
        sys.executable,
        ENTRY,
        "evaluate",
        "--offline",
        f"--env.data_dir_to_save_evals={first}",
    ]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for number in range(1, count):
        shutil.copytree(first, folder / f"run-{number}")
        if number % UNFINISHED == 0:
            (folder / f"run-{number}" / "metrics.json").unlink()


def seconds_of(url: str, runs: int) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url) as response:
        page = response.read()
    taken = time.perf_counter() - began
    assert page.count(b'<a class="isolated" href="/run/') == runs
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    results_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_runs(Path(name), options.runs)
        words = [sys.executable, "-m", "judgegym.reports.view", name, "--port=0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found is not None
            taken = statistics.median(
                seconds_of(found[0], options.runs) for _ in range(options.rounds)
            )
            server.terminate()
    work = f"the list of {options.runs} runs in a browser"
    report(
        [Measured("finished runs", work, "s", taken, "limit", LIMIT_S, at_most=1)], options.results
    )


if __name__ == "__main__":
    main()
