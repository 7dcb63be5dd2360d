"""Memory and time of `evaluate` by its number of rows: fresh, and resumed with half of the rows and with all of them.

`evaluate` runs as a process: rubric-absolute scores the responses of a generated dataset
(instructions and responses of 1 to 3 KB), with one judge call a row to an endpoint that answers at
once (a process of its own). The half-finished run is a copy of the fresh run's files, taken while
it runs, as a crash would leave them. Of each run the CPU time, the wall time and the highest memory
are taken; CPU and memory less those of a run with one row, which are the start and the imports.

Without `--folder` everything is in a temporary directory: 100,000 rows take 2 GB of it.

    python -m benchmarks.rows.evaluate [--rows 10000 100000] [--folder DIR] [--results FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.measured import Measured, report, results_option

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
FIXED_MIB, BYTES_A_ROW = 150, 1500
MOST_TIMES = 10.5
"""How much more ten times as many rows may take."""
STARTS = 3
"""How often a run with one row is measured; the one with the least CPU counts, since it is taken off all others."""
KINDS = ("fresh", "resumed, half finished", "resumed, all finished")
FILES = ("config.yaml", "samples.jsonl", "failures.jsonl", "calls.jsonl")
"""The files of a run that `--resume` reads, in the order in which a crash would have them on disk."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: seconds of CPU and of wall time, MiB of memory at its most."""

    cpu_s: float
    wall_s: float
    memory_mib: float

    def above(self, other: Cost) -> Cost:
        """CPU and memory that it took more than another; the wall time stays: on a busy machine it is no sum."""
        return Cost(self.cpu_s - other.cpu_s, self.wall_s, self.memory_mib - other.memory_mib)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path, help="keep datasets and run directories here")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    results_option(parser)
    options = parser.parse_args()
    if options.answer:
        asyncio.run(answer())
        return
    with resolve_folder(options.folder) as folder, endpoint() as url:
        starts = [evaluated(folder / "rows-1", 1, url)["fresh"] for _ in range(STARTS)]
        start = min(starts, key=lambda cost: cost.cpu_s)
        print(
            f"1 row: {shown(start)}: the start and the imports, which are taken off CPU and memory "
            "below"
        )
        costs: dict[int, dict[str, Cost]] = {}
        for rows in options.rows:
            costs[rows] = {
                kind: cost.above(start)
                for kind, cost in evaluated(folder / f"rows-{rows}", rows, url).items()
            }
            for kind, cost in costs[rows].items():
                print(f"{rows} rows, {kind}: {shown(cost)}", flush=True)
    report(lines(costs), options.results)


def lines(costs: dict[int, dict[str, Cost]]) -> Iterator[Measured]:
    """The memory of each run against its bound, and time and memory of the largest run against a tenth of it."""
    for rows, by_kind in costs.items():
        bound = FIXED_MIB + rows * BYTES_A_ROW / MIB
        for kind, cost in by_kind.items():
            work = f"evaluate, {rows} rows, {kind}"
            yield Measured(
                "rows",
                work,
                "MiB above the imports",
                cost.memory_mib,
                "the bound",
                bound,
                at_most=1.0,
            )
    for few, many in zip(costs, [*costs][1:], strict=False):
        at_most = MOST_TIMES * many / few / 10
        for kind in KINDS:
            work, name = f"evaluate, {many} rows, {kind}", f"{few} rows"
            ours, other = costs[many][kind], costs[few][kind]
            yield Measured("rows", work, "s of CPU", ours.cpu_s, name, other.cpu_s, at_most=at_most)
            yield Measured(
                "rows", work, "s with the start", ours.wall_s, name, other.wall_s, at_most=at_most
            )
            yield Measured(
                "rows", work, "MiB", ours.memory_mib, name, other.memory_mib, at_most=at_most
            )


def shown(cost: Cost) -> str:
    """A cost in words."""
    return f"{cost.cpu_s:.1f} s of CPU, {cost.wall_s:.1f} s, {cost.memory_mib:.0f} MiB"


@contextmanager
def resolve_folder(named: Path | None) -> Iterator[Path]:
    """The folder that was named, or a temporary one."""
    if named is not None:
        named.mkdir(parents=True, exist_ok=True)
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def evaluated(folder: Path, rows: int, url: str) -> dict[str, Cost]:
    """Evaluate so many rows in a new folder, in all three ways; one row only afresh."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    dataset, run, half = write_rows(folder / "dataset.jsonl", rows), folder / "run", folder / "half"
    process = started(dataset, url, run)
    if rows > 1:
        copy_when_half_done(run, half, rows, process)
    costs = {KINDS[0]: cost_of(process)}
    if rows > 1:
        costs[KINDS[1]] = cost_of(started(dataset, url, half, "--resume"))
        costs[KINDS[2]] = cost_of(started(dataset, url, run, "--resume"))
    return costs


@dataclass(slots=True)
class Started:
    """A command that runs, and when it was started."""

    process: subprocess.Popen[bytes]
    began: float
    log: Path


def started(dataset: Path, url: str, run: Path, *flags: str) -> Started:
    """Start `evaluate` into a run directory."""
    command = [
        *(sys.executable, "environments/rubric_absolute_environment.py", "evaluate"),
        *(
            f"--env.eval_dataset={dataset}",
            "--env.score_responses=true",
            f"--env.data_dir_to_save_evals={run}",
        ),
        *(
            f"--env.judge_base_url={url}",
            "--env.judge_model_name=judge",
            "--env.judge_max_concurrency=64",
        ),
        *flags,
    ]
    log = run.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env={**os.environ, "OPENAI_API_KEY": "none"},
        )
    return Started(process, time.monotonic(), log)


def cost_of(started: Started) -> Cost:
    """Wait for a command, and return what it took.

    Raises:
        RuntimeError: it failed.
    """
    _, status, usage = os.wait4(started.process.pid, 0)
    started.process.returncode = os.waitstatus_to_exitcode(status)
    if started.process.returncode != 0:
        raise RuntimeError(f"evaluate failed:\n{started.log.read_text()[-2000:]}")
    return Cost(
        usage.ru_utime + usage.ru_stime,
        time.monotonic() - started.began,
        usage.ru_maxrss * 1024 / MIB,
    )


def copy_when_half_done(run: Path, half: Path, rows: int, started: Started) -> None:
    """Copy the files of a run when half of its rows are finished, without stopping it."""
    samples, read, finished = run / "samples.jsonl", 0, 0
    while finished * 2 < rows:
        time.sleep(0.05)
        if (run / "metrics.json").exists() or not Path(f"/proc/{started.process.pid}").exists():
            raise RuntimeError(
                f"the run of {rows} rows was over before half of it was seen: {started.log}"
            )
        if samples.exists():
            with samples.open("rb") as file:
                file.seek(read)
                while part := file.read(MIB):
                    read += len(part)
                    finished += part.count(b"\n")
    half.mkdir()
    for name in FILES:
        if (run / name).exists():
            shutil.copy(run / name, half)


def write_rows(path: Path, rows: int) -> Path:
    """Write a dataset of instructions and responses of 1 to 3 KB, with references and gold scores."""
    numbers = random.Random(rows)
    words = [
        "".join(numbers.choices("abcdefghijklmnopqrstuvwxyz", k=numbers.randint(2, 10)))
        for _ in range(5000)
    ]
    text = " ".join(numbers.choices(words, k=200_000))

    def some(least: int, most: int) -> str:
        start = numbers.randrange(len(text) - most)
        return text[start : start + numbers.randint(least, most)]

    with path.open("wb") as file:
        for number in range(rows):
            row = {
                "uid": f"row-{number:06}",
                "instruction": some(1000, 3000),
                "response": some(1000, 3000),
                "rubric": "Is the response useful to somebody who asked for this?",
                "reference_answer": some(500, 1000),
                "score": numbers.randint(1, 5),
            }
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return path


@contextmanager
def endpoint() -> Iterator[str]:
    """An endpoint as a process of its own; its base URL."""
    command = [sys.executable, "-m", "benchmarks.rows.evaluate", "--answer"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


class Answers(asyncio.Protocol):
    """Answers each request with a feedback of 1 to 2 KB and a score; looks at nothing but the length of the body."""

    count = 0

    def __init__(self, bodies: Sequence[bytes]) -> None:
        """Answer with these, in turn."""
        self._bodies = bodies
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(self._received) < end + 4 + length:
                return
            del self._received[: end + 4 + length]
            Answers.count += 1
            self._transport.write(self._bodies[Answers.count % len(self._bodies)])


async def answer() -> None:
    """Answer for ever; print the base URL."""
    numbers, bodies = random.Random(0), []
    for score in range(1, 6):
        words = " ".join("".join(numbers.choices("abcdefghij", k=6)) for _ in range(200))
        message = {"role": "assistant", "content": f"[FEEDBACK] {words}\n[SCORE] {score}"}
        body = orjson.dumps(
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1500, "completion_tokens": 300},
            }
        )
        bodies.append(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
            + body
        )
    server = await asyncio.get_running_loop().create_server(lambda: Answers(bodies), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
