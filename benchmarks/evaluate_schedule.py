"""How near `evaluate` comes to the schedule's lower bound, on answers that need no policy.

The bound for C judge calls of latency L under a limit of N is C·L/N + L: the calls of a full pipeline, and one latency
to fill it. Measured is the time from the first judge call to the last sample, start-up left out, as the command itself
sees it: it takes the time of the loop, not of the process.

    python benchmarks/evaluate_schedule.py PROMPTS BASELINE ANSWERS [--latency_ms 300] [--limit 256] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from environments import cli
from environments.evaluate import evaluation
from eval_environments.arena_hard_environment import ArenaHardEnv


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts")
    parser.add_argument("baseline")
    parser.add_argument("answers")
    parser.add_argument("--latency_ms", type=float, default=300)
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    seconds: list[float] = []
    loop = evaluation.finish_rows
    evaluation.finish_rows = timed(loop, seconds)
    rows = len(Path(arguments.prompts).read_bytes().splitlines())
    bound = (2 * rows * arguments.latency_ms / arguments.limit + arguments.latency_ms) / 1000
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            code = cli.main(
                ArenaHardEnv,
                [
                    "evaluate",
                    "--offline",
                    f"--latency_ms={arguments.latency_ms}",
                    f"--env.judge_max_concurrency={arguments.limit}",
                    f"--env.eval_prompt_dataset={arguments.prompts}",
                    f"--env.eval_baseline_dataset={arguments.baseline}",
                    f"--env.model_answers={arguments.answers}",
                    f"--env.data_dir_to_save_evals={folder}",
                ],
            )
        assert code == 0, code
        print(f"round {number + 1}: {seconds[-1]:.2f} s for a bound of {bound:.2f} s: {seconds[-1] / bound:.2f} times")
    print(f"median: {statistics.median(seconds) / bound:.2f} times the bound ({rows} rows, {2 * rows} judge calls)")


def timed(loop: Callable[..., Awaitable[Any]], seconds: list[float]) -> Callable[..., Awaitable[Any]]:
    """The evaluation's loop, with its duration noted."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return await loop(*args, **kwargs)
        finally:
            seconds.append(time.perf_counter() - started)

    return run


if __name__ == "__main__":
    main()
