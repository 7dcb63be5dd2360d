"""How near `evaluate` comes to the schedule's lower bound, on answers that need no policy.

The bound for C judge calls of latency L under a limit of N is C·L/N + L: the calls of a full
pipeline, and one latency to fill it. Measured is the time from the first judge call to the last
sample, start-up left out, as the command itself
sees it: it takes the time of the loop, not of the process. Arena-Hard judges the answers of a
generated dataset, or of the files that are named.

    python -m benchmarks.evaluate_schedule [PROMPTS BASELINE ANSWERS] [--rows 1500] [--latency_ms
        300] [--limit 256] [--rounds 3] [--results FILE]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measured import Measured, report, results_option
from judgegym.environments.command_line import main as cli
from judgegym.environments.evaluate import evaluation
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="PROMPTS BASELINE ANSWERS"
    )
    parser.add_argument(
        "--rows", type=int, default=1500, help="of the generated dataset (default: %(default)s)"
    )
    parser.add_argument("--latency_ms", type=float, default=300)
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    results_option(parser)
    options = parser.parse_args()
    if len(options.files) not in (0, 3):
        parser.error("name all three files, or none")
    with tempfile.TemporaryDirectory() as folder:
        files = options.files or written(Path(folder), options.rows)
        rows = len(files[0].read_bytes().splitlines())
        times = [seconds(files, options.latency_ms, options.limit) for _ in range(options.rounds)]
    bound = (2 * rows * options.latency_ms / options.limit + options.latency_ms) / 1000
    work = f"evaluate, {2 * rows} judge calls of {options.latency_ms:g} ms, {options.limit} at once"
    median = statistics.median(times)
    report([Measured("others", work, "s", median, "the schedule's bound", bound)], options.results)


def written(folder: Path, rows: int) -> Sequence[Path]:
    """Prompts, baseline and answers of so many rows."""
    numbered = [
        (f"row-{number}", f"Which {number} things belong in a house, and why? " * 5)
        for number in range(rows)
    ]
    answer = "A door, since nobody would get in, and a window for the light. " * 12
    tables = {
        "prompts": [{"uid": uid, "prompt": prompt} for uid, prompt in numbered],
        "baseline": [{"uid": uid, "answer": answer} for uid, _ in numbered],
        "answers": [{"uid": uid, "answer": f"{answer} And {uid}."} for uid, _ in numbered],
    }
    paths = [folder / f"{name}.jsonl" for name in tables]
    for path, lines in zip(paths, tables.values(), strict=True):
        path.write_bytes(
            b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        )
    return paths


def flags(files: Sequence[Path], folder: str) -> list[str]:
    """The flags of an offline evaluation of these files."""
    names = ("eval_prompt_dataset", "eval_baseline_dataset", "model_answers")
    datasets = [f"--env.{name}={path}" for name, path in zip(names, files, strict=True)]
    return ["evaluate", "--offline", *datasets, f"--env.data_dir_to_save_evals={folder}"]


def seconds(files: Sequence[Path], latency_ms: float, limit: int) -> float:
    """The time of the evaluation's loop."""
    found: list[float] = []
    loop, evaluation.judge_rows = evaluation.judge_rows, timed(evaluation.judge_rows, found)
    try:
        with tempfile.TemporaryDirectory() as folder:
            own = [
                f'--faults={{"latency_ms": {latency_ms}}}',
                f"--env.judge_max_concurrency={limit}",
            ]
            assert cli.main(ArenaHardEnv, [*flags(files, folder), *own]) == 0
    finally:
        evaluation.judge_rows = loop
    return found[0]


def timed(loop: Callable[..., Awaitable[Any]], found: list[float]) -> Callable[..., Awaitable[Any]]:
    """The evaluation's loop, with its duration noted."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return await loop(*args, **kwargs)
        finally:
            found.append(time.perf_counter() - started)

    return run


if __name__ == "__main__":
    main()
