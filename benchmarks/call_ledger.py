"""What the ledger of calls costs: CPU of a call, and memory of finished rows.

No endpoint is asked: what is measured is the ledger alone. Each row makes three calls with a system
prompt that all share and a prompt of 3 kB of its own. The peer appends the same lines, encoded
beforehand, to a file with `os.write`;
what is above that is what makes a ledger of a log: keys, texts named by their digests, JSON. The
bound of memory is
the same for any number of rows: of a finished row nothing is kept.

    python -m benchmarks.call_ledger [--rows 4000] [--rounds 5] [--more]

`--more` also prints what the ledger takes on disk, and how long it takes to be opened, replayed,
compressed and read.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measured import Measured, report, results_option
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS, pack, read_calls
from judgegym.llm.ledger import CallInProgress, RequestRecord, record_calls
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Usage
from judgegym.llm.wire import Choice, Message

CALLS_OF_A_ROW = 3
REPLAYED = 500
MEMORY_MIB = 4.0
SYSTEM = Message(role="system", content="You are a judge of answers. " * 40)
TEXT = "An answer of many words that a policy has written. " * 60
VERDICT = "Reasons, and then a verdict. " * 25


async def answer(record: RequestRecord) -> ChatResponse:
    """What an endpoint would say."""
    record.note_sent()
    return ChatResponse((Choice(VERDICT, finish_reason="stop"),), Usage(900, 150, 0.001), 0.5, 1)


async def run_rows(ledger: CallLedger, uids: Sequence[str]) -> None:
    """The calls of rows, one row after the other."""
    for uid in uids:
        with record_calls(ledger.row(uid)):
            for number in range(CALLS_OF_A_ROW):
                messages = [SYSTEM, Message(role="user", content=f"{uid} {number} {TEXT}")]
                parameters = {"temperature": 0.2, "max_tokens": 4096}
                call = CallInProgress.begin(f"call_{number}", 0, "judge", messages, parameters)
                if not call.parts:
                    await call.ask(answer)


@contextmanager
def opened(path: Path, finished: Collection[str] = ()) -> Iterator[CallLedger]:
    """The ledger of a run that begins or is resumed."""
    run = RunDirectory(path, config={}, matters={}, resume=path.exists())
    ledger = CallLedger(run, finished=frozenset(finished), keep_texts=True)
    try:
        yield ledger
    finally:
        ledger.close()
        run.close()


def resident_mib() -> float:
    """This process's memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def append(lines: Sequence[bytes], path: Path) -> None:
    """Append lines as the peer does."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for line in lines:
        os.write(descriptor, line)
    os.close(descriptor)


async def measure(rows: int, rounds: int, folder: Path) -> list[Measured]:
    """The ratios."""
    uids = [f"row-{number}" for number in range(rows)]
    with opened(folder / "first") as ledger:  # caches
        await run_rows(ledger, uids[:100])
        gc.collect()
        before = resident_mib()
        await run_rows(ledger, uids)
        gc.collect()
        grown = resident_mib() - before
    lines = (folder / "first" / CALLS).read_bytes().splitlines(keepends=True)
    ours, bare = list[float](), list[float]()
    for number in range(rounds):
        with opened(folder / f"round-{number}") as ledger:
            began = time.process_time()
            await run_rows(ledger, uids)
            ours.append(time.process_time() - began)
        began = time.process_time()
        append(lines, folder / f"bare-{number}")
        bare.append(time.process_time() - began)
    calls, size = rows * CALLS_OF_A_ROW, len(b"".join(lines)) / len(lines) * 2 / 1000
    return [
        Measured(
            part="judge call",
            work=f"recording {calls} calls in the ledger, {size:.1f} kB each",
            unit="µs of CPU a call",
            ours=statistics.median(ours) / calls * 1e6,
            other_name="the same lines appended with os.write",
            other=statistics.median(bare) / calls * 1e6,
        ),
        Measured(
            part="rows",
            work=f"the ledger of calls after {rows} finished rows",
            unit="MiB above its beginning",
            ours=max(grown, 0.0),
            other_name="bound, for any number of rows",
            other=MEMORY_MIB,
            at_most=1.0,
        ),
    ]


async def print_more(rows: int, path: Path) -> None:
    """Print size and seconds of all that a ledger goes through."""
    uids = [f"row-{number}" for number in range(rows)]
    with opened(path) as ledger:
        await run_rows(ledger, uids)
    print(f"{rows * CALLS_OF_A_ROW} calls take {(path / CALLS).stat().st_size / 2**20:.0f} MiB")
    for finished in (uids[:-REPLAYED], []):
        began = time.perf_counter()
        with opened(path, finished) as ledger:
            ready = time.perf_counter()
            await run_rows(ledger, uids[-REPLAYED:])
            each = (time.perf_counter() - ready) / REPLAYED / CALLS_OF_A_ROW * 1e6
            print(
                f"opened, {rows - len(finished)} rows to do: {ready - began:.1f} s, then "
                f"{each:.0f} µs a call replayed"
            )
    began = time.perf_counter()
    pack(path, keep=True)
    print(
        f"compressed: {time.perf_counter() - began:.1f} s, "
        f"{(path / PACKED_CALLS).stat().st_size / 2**20:.0f} MiB"
    )
    began = time.perf_counter()
    count = sum(1 for _ in read_calls(path))
    print(
        f"read: {count} calls in {time.perf_counter() - began:.1f} s, {resident_mib():.0f} MiB "
        "resident"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--more",
        action="store_true",
        help="also print size and seconds of the whole life of a ledger",
    )
    results_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report(asyncio.run(measure(options.rows, options.rounds, Path(folder))), options.results)
        if options.more:
            asyncio.run(print_more(max(options.rows, REPLAYED), Path(folder) / "more"))


if __name__ == "__main__":
    main()
