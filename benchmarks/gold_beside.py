"""Sequences a second of `serve` with a gold judge beside it, and without one.

As `benchmarks.rollouts.throughput`, in interleaved rounds: without a gold judge, then with one that
answers as fast as the training judge, one that answers after a minute, one that refuses
connections, and one whose rate limit is reached. The figure of a kind is the median over the rounds
of its rate beside that of the same round without. A gold judge sees one rollout of a quarter of the
groups, and of a quarter of these all.

    python -m benchmarks.gold_beside [--rounds 3] [--steps 20]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from benchmarks.measured import Measured, report, results_option
from benchmarks.rollouts.processes import endpoint
from benchmarks.rollouts.throughput import AT_ONCE, WARM_UP, Throughput, measure
from judgegym.judges.core.event_loop import run

AT_LEAST = 0.97
KINDS = ("fast", "slow", "dead", "rate-limited")
_LIMITED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def gold_judge(kind: str, options: argparse.Namespace) -> AsyncIterator[str]:
    """The base URL of a gold judge of a kind."""
    if kind in ("fast", "slow"):
        async with endpoint(
            0, options.judge_ms if kind == "fast" else 60_000, options.tokens
        ) as url:
            yield url
        return
    with socket.socket() as bound:  # nobody listens
        bound.bind(("127.0.0.1", 0))
        if kind == "dead":
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
            return

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(_LIMITED)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 if a kind holds training up."""
    alone: list[Throughput] = []
    beside: dict[str, list[Throughput]] = {kind: [] for kind in options.kinds}
    flags = options.flag
    for number in range(options.rounds):
        options.flag = flags
        alone.append(await measure(AT_ONCE, options.steps, WARM_UP, options))
        for kind in options.kinds:
            async with gold_judge(kind, options) as url:
                settings = {"judge": "rubric", "judge_base_url": url}
                options.flag = [*flags, f"--env.gold_judge={json.dumps(settings)}"]
                beside[kind].append(await measure(AT_ONCE, options.steps, WARM_UP, options))
        kinds = {"without": alone[-1], **{kind: found[-1] for kind, found in beside.items()}}
        shown = ", ".join(
            f"{kind} {one.rate:.1f} ({one.cpu_ms:.2f} ms of CPU)" for kind, one in kinds.items()
        )
        print(f"round {number + 1}: sequences/s: {shown}", flush=True)
    measured = []
    for kind, found in beside.items():
        ratio = median(one.rate / before.rate for one, before in zip(found, alone, strict=True))
        work, before = (
            f"a gold judge that is {kind}, {options.rounds} rounds",
            median(one.rate for one in alone),
        )
        name = "without a gold judge"
        measured.append(
            Measured("serve", work, "sequences/s", ratio * before, name, before, at_least=AT_LEAST)
        )
    report(measured, options.results)
    return int(not all(line.is_met for line in measured))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--policy_ms", type=float, default=200)
    parser.add_argument("--judge_ms", type=float, default=300)
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a completion")
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument(
        "--steps", type=int, default=20, help="batches of 128 sequences that are measured"
    )
    parser.add_argument("--flag", action="append", default=[], help="a further flag of serve")
    parser.add_argument("--verbose", action="store_true", help="show what serve says")
    results_option(parser)
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(run(main(parser.parse_args())))
