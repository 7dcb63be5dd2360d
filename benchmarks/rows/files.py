"""Scored files: the memory and the CPU of writing them, by the number of rows and by the kinds of input and output.

Each file is written by a process of its own, which reads the input, checks it and writes every row
with made-up verdicts. The rows are those of the shared data (`texts.py`). Memory is the process's
peak, with the libraries that it has imported; CPU is that of the output alone. Beside it: the same
process with a tenth of the rows.

    python -m benchmarks.rows.files [--rows 50000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.measured import Measured, report, results_option
from benchmarks.rows.texts import write_rows
from judgegym.data.rows import load_rows
from judgegym.datasets.files.columns import AddedColumns, check_columns
from judgegym.datasets.files.writer import StoredRows, write_scored
from judgegym.llm.wire import JSON

PART = "scored file"
MOST_GROWTH = 1.25
KINDS = ("jsonl", "parquet")
_COLUMNS = AddedColumns(several=False)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: MiB of memory at its most, and seconds of CPU for the output."""

    memory_mib: float
    cpu_s: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument(
        "--write", nargs=2, type=Path, metavar=("DATA", "OUT"), help=argparse.SUPPRESS
    )
    results_option(parser)
    options = parser.parse_args()
    if options.write is not None:
        sys.stdout.buffer.write(orjson.dumps(written(*options.write)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for source in KINDS:
            few, many = (
                made(Path(folder), count, source) for count in (options.rows // 10, options.rows)
            )
            for target in KINDS:
                report(compared(few, many, target, options.rows), options.results)


def made(folder: Path, rows: int, kind: str) -> Path:
    """A data set of so many rows; as Parquet, written with the verdicts as columns of its own."""
    path = folder / f"rows_{rows}.jsonl"
    if not path.exists():
        write_rows(path, rows)
    if kind == "jsonl":
        return path
    parquet = path.with_suffix(".parquet")
    _child(path, parquet)
    import pyarrow.parquet  # late: an extra

    table = pyarrow.parquet.read_table(parquet).drop_columns(list(_COLUMNS.names))
    pyarrow.parquet.write_table(table, parquet)
    return parquet


def compared(few: Path, many: Path, target: str, rows: int) -> Iterator[Measured]:
    """The costs of writing a file of one kind from many rows and from few."""
    less, more = (_child(path, path.with_name(f"scored.{target}")) for path in (few, many))
    work = f"{rows} rows, {many.suffix[1:]} to {target}"
    other = f"{rows // 10} rows"
    yield Measured(PART, work, "MiB", more.memory_mib, other, less.memory_mib, at_most=MOST_GROWTH)
    yield Measured(
        PART,
        work,
        "µs of CPU a row",
        more.cpu_s / rows * 1e6,
        other,
        less.cpu_s / (rows // 10) * 1e6,
    )


def _child(data: Path, out: Path) -> Cost:
    command = [sys.executable, "-m", "benchmarks.rows.files", "--write", str(data), str(out)]
    return Cost(**orjson.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def written(data: Path, out: Path) -> Cost:
    """Write a scored file in this process."""
    rows = load_rows(str(data), split="train")
    check_columns(rows, _COLUMNS, out)
    began = time.process_time()
    write_scored(StoredRows(rows), range(len(rows)), out, map(_verdict, range(len(rows))), _COLUMNS)
    cpu = time.process_time() - began
    return Cost(_peak_mib(), cpu)


def _peak_mib() -> float:
    """This process's peak; `ru_maxrss` would be at least that of the process that has started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in status if line.startswith("VmHWM:")).split()[1]) / 1024


def _verdict(number: int) -> dict[str, JSON]:
    detail = f'{{"raw":{number % 5 + 1}}}'
    values = (
        number % 5 / 4,
        "ok",
        str(number % 5 + 1),
        f"It is a good answer, but for point {number}.",
        detail,
    )
    return dict(zip(_COLUMNS.names, values, strict=True))


if __name__ == "__main__":
    main()
