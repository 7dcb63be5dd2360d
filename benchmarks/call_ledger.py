"""What the ledger of calls costs: time for each call, size on disk, memory; then opened, replayed, compressed, read.

No endpoint is asked: what is measured is the ledger alone. Each row makes three calls with a system prompt that all
share and a prompt of 3 kB of its own.

    python benchmarks/call_ledger.py [--rows 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from environments.runs.directory import RunDirectory
from environments.runs.ledger import CallLedger
from environments.runs.packing import pack
from environments.runs.recorded_calls import CALLS, PACKED_CALLS, read_calls
from judges.llm.ledger import OpenCall, RequestRecord, recorded_in
from judges.llm.types import ChatAnswer
from judges.llm.usage import Usage
from judges.llm.wire import Choice, Message

CALLS_OF_A_ROW = 3
REPLAYED = 500
SYSTEM = Message(role="system", content="You are a judge of answers. " * 40)
TEXT = "An answer of many words that a policy has written. " * 60
VERDICT = "Reasons, and then a verdict. " * 25


def resident() -> str:
    """The process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return f"{pages * 4096 / 2**20:.0f} MiB resident"


async def answer(record: RequestRecord) -> ChatAnswer:
    """What an endpoint would say."""
    record.leaves()
    return ChatAnswer((Choice(VERDICT, finish_reason="stop"),), Usage(900, 150, 0.001), 0.5, 1)


async def run_row(ledger: CallLedger, uid: str) -> None:
    """The calls of one row."""
    with recorded_in(ledger.row(uid)):
        for number in range(CALLS_OF_A_ROW):
            messages = [SYSTEM, Message(role="user", content=f"{uid} {number} {TEXT}")]
            call = OpenCall.begin(f"call_{number}", 0, "judge", messages, {"temperature": 0.2, "max_tokens": 4096})
            if not call.parts:
                await call.ask(answer)


@contextmanager
def opened(path: Path, finished: Collection[str] = ()) -> Iterator[CallLedger]:
    """The ledger of a run that begins or is resumed."""
    run, _ = RunDirectory.open(path, config={}, matters={}, resume=True)
    ledger = CallLedger(run, finished=finished, keep_texts=True)
    try:
        yield ledger
    finally:
        ledger.close()
        run.close()


async def measure(rows: int, path: Path) -> None:
    """Write a ledger of so many rows, and print what it costs."""
    uids = [f"row-{number}" for number in range(rows)]
    print(f"{'begin':>28}: {resident()}")
    with opened(path) as ledger:
        started = time.perf_counter()
        for uid in uids:
            await run_row(ledger, uid)
        seconds = time.perf_counter() - started
    size = (path / CALLS).stat().st_size / 2**20
    each = seconds / rows / CALLS_OF_A_ROW * 1e6
    print(f"{'written':>28}: {each:.0f} us a call, {size:.0f} MiB, {resident()}")
    for finished in (uids[:-REPLAYED], []):
        started = time.perf_counter()
        with opened(path, finished) as ledger:
            ready = time.perf_counter()
            for uid in uids[-REPLAYED:]:
                await run_row(ledger, uid)
            each = (time.perf_counter() - ready) / len(uids[-REPLAYED:]) / CALLS_OF_A_ROW * 1e6
            what = f"opened, {len(uids) - len(finished)} rows to do"
            print(f"{what:>28}: {ready - started:.1f} s, then {each:.0f} us a call, {resident()}")
    started = time.perf_counter()
    pack(path, keep=True)
    seconds = time.perf_counter() - started
    print(f"{'compressed':>28}: {seconds:.1f} s, {(path / PACKED_CALLS).stat().st_size / 2**20:.0f} MiB")
    started = time.perf_counter()
    count = sum(1 for _ in read_calls(path))
    print(f"{'read':>28}: {count} calls in {time.perf_counter() - started:.1f} s, {resident()}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        asyncio.run(measure(options.rows, Path(path)))


if __name__ == "__main__":
    main()
