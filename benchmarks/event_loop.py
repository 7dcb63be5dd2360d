"""CPU of an offline evaluation on the loop of commands (uvloop), beside the same on asyncio's loop.

Each evaluation is a process of its own, and the two take turns. Of each the user CPU is taken, of
the evaluation's
process alone: the stand-in has a loop of its own. A run of a single row, which is the start and the
imports, is taken off; both are the least of all rounds. The rows are Arena-Hard's, two judge calls
each; the stand-in takes 100 ms for each, so that many are in flight.

    python -m benchmarks.event_loop [--rows 3000] [--latency_ms 100] [--rounds 4] [--results FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.evaluate_schedule import flags, written
from benchmarks.measured import Measured, report, results_option

ROOT = Path(__file__).resolve().parent.parent
LOOPS = ("uvloop", "asyncio")
COMMAND = """
import resource, sys
if sys.argv.pop(1) == "asyncio":
    sys.modules["uvloop"] = None
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.environments.command_line import main as cli
code = cli.main(ArenaHardEnv, sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime, file=sys.stderr)
sys.exit(code)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--latency_ms", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=4)
    results_option(parser)
    options = parser.parse_args()
    starts: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    times: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), options.rows)
        for number in range(1, options.rounds + 1):
            for loop in LOOPS:
                own = f'--faults={{"latency_ms": {options.latency_ms}}}'
                starts[loop].append(user_seconds(loop, files, own, "--limit=1"))
                times[loop].append(user_seconds(loop, files, own))
                print(f"round {number}, {loop}: {times[loop][-1]:.2f} s of user CPU", flush=True)
    work = f"evaluate, {options.rows} rows with two judge calls of {options.latency_ms:g} ms"
    ours, other = (min(times[loop]) - min(starts[loop]) for loop in LOOPS)
    report(
        [Measured("event loop", work, "s of user CPU", ours, "asyncio's loop", other)],
        options.results,
    )


def user_seconds(loop: str, files: Sequence[Path], *more: str) -> float:
    """The user CPU of an evaluation's process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMAND, loop, *flags(files, folder), *more]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return float(ended.stderr.rsplit(maxsplit=1)[-1])


if __name__ == "__main__":
    main()
