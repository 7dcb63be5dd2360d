"""CPU time and memory of writing the page of a run, by its number of rows.

Arena-Hard rows (questions of 1 KB, answers of 2 KB) are evaluated offline by a process without a
page; then another process writes the page, with at most 2,000 rows on it. Of both the CPU time is
taken (of the evaluation with that of its stand-ins), of the page the highest memory, too.
Everything is in a temporary directory: 100,000 rows take 1.5 GB.

    python -m benchmarks.pages.writing [--rows 500 2000 20000] [--results FILE]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.measured import Measured, report, results_option

ROOT = Path(__file__).resolve().parents[2]
ARENA = ROOT / "eval_environments" / "arena_hard_environment.py"
MIB = 1 << 20
MOST_MEMORY = 2.0
"""How much more memory the largest run may take than the smallest."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: seconds of CPU, and MiB of memory at its most."""

    cpu_s: float
    memory_mib: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[500, 2_000, 20_000], help="numbers of rows"
    )
    results_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report(lines(Path(folder), sorted(options.rows)), options.results)


def lines(folder: Path, sizes: list[int]) -> Iterator[Measured]:
    """The ratios: CPU to that of the evaluation, memory of the largest run to that of the smallest."""
    memory: list[float] = []
    for rows in sizes:
        run = folder / f"run-{rows}"
        evaluation = cost(str(ARENA), "evaluate", "--offline", *flags(folder, rows, run))
        page = cost("-m", "judgegym.reports", str(run))
        memory.append(page.memory_mib)
        size = (run / "report.html").stat().st_size / MIB
        work = f"{rows:,} rows, {size:.1f} MiB"
        yield Measured(
            "page of a run",
            work,
            "s of CPU",
            page.cpu_s,
            "their evaluation, offline",
            evaluation.cpu_s,
        )
    work, other = f"{sizes[-1]:,} rows", f"{sizes[0]:,} rows"
    yield Measured(
        "page of a run", work, "MiB at most", memory[-1], other, memory[0], at_most=MOST_MEMORY
    )


def flags(folder: Path, rows: int, run: Path) -> list[str]:
    """The flags of an evaluation of generated rows."""
    text = random.Random(0)
    words = [f"word{number}" for number in range(2_000)]
    files = {name: folder / f"{name}-{rows}.jsonl" for name in ("prompts", "baseline", "answers")}
    opened = {name: path.open("wb") for name, path in files.items()}
    for number in range(rows):
        row = {"uid": f"row-{number}"}
        question = {
            **row,
            "prompt": " ".join(text.choices(words, k=120)),
            "category": f"category {number % 10}",
        }
        opened["prompts"].write(orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE))
        for name in ("baseline", "answers"):
            answer = {**row, "model": name, "answer": " ".join(text.choices(words, k=240))}
            opened[name].write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    for file in opened.values():
        file.close()
    return [
        f"--env.eval_prompt_dataset={files['prompts']}",
        f"--env.eval_baseline_dataset={files['baseline']}",
        f"--env.model_answers={files['answers']}",
        f"--env.data_dir_to_save_evals={run}",
        "--env.write_report=False",
    ]


def cost(*words: str) -> Cost:
    """Run a command of this interpreter, and take what it cost."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {said.decode()}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
