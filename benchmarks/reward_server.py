"""Many requests at once: `/get_reward` against the offline judge, beside a bare aiohttp server that only waits as long.

All N requests are sent at once, each with a prompt of its own so that none is joined with another; the judge (a process
of its own) takes `latency_ms`. The bare server waits as long and answers. Both run as processes on this machine, one
after the other; what is reported is the latency of single requests, and the memory of each server, before the requests
and at its most.

    python benchmarks/reward_server.py [--requests 2000] [--latency_ms 200] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MIB = 1024

BARE = """
import asyncio, sys
from aiohttp import web

async def answer(request):
    await request.read()
    await asyncio.sleep(float(sys.argv[1]) / 1000)
    return web.json_response({"rewards": [0.0], "scores": [0.0], "extra_logs": {"judge_failed": [0.0]}})

async def main():
    app = web.Application()
    app.router.add_post("/get_reward", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print("listens at http://127.0.0.1:%d" % runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--latency_ms", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    server = [sys.executable, "-m", "judges.server", "--judge=rubric", "--offline", "--port=0"]
    server += [f"--latency_ms={arguments.latency_ms}", f"--judge_max_concurrency={arguments.requests}"]
    bare = [sys.executable, "-c", BARE, str(arguments.latency_ms)]
    for name, command in (("bare aiohttp", bare), ("reward server", server)):
        with running(command) as (url, process):
            before = memory_kib(process.pid, "VmRSS")
            for round_number in range(arguments.rounds):
                report(name, asyncio.run(ask(url, arguments.requests, round_number)))
            after, most = (memory_kib(process.pid, field) / MIB for field in ("VmRSS", "VmHWM"))
            print(f"{name:>14}: memory {before / MIB:.0f} MiB before, {after:.0f} after, {most:.0f} at its most")


@contextmanager
def running(command: list[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that says its URL in its first line."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process
    finally:
        process.terminate()
        process.wait()


def memory_kib(pid: int, field: str) -> int:
    """A figure of a process's memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ValueError(field)


async def ask(url: str, count: int, round_number: int) -> list[float | None]:
    """All requests at once: seconds of each, `None` for one that failed."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(number: int) -> float | None:
            prompt = f"Question {round_number}.{number}: what is it?\n"
            body = {"query": [f"{prompt}It is what it is, number {number}."], "prompts": [prompt], "labels": [None]}
            started = time.perf_counter()
            try:
                async with session.post(f"{url}/get_reward", data=json.dumps(body)) as response:
                    answer = await response.json(content_type=None)
                    is_judged = response.status == 200 and answer["extra_logs"]["judge_failed"] == [0.0]
            except (aiohttp.ClientError, asyncio.TimeoutError):
                is_judged = False
            return time.perf_counter() - started if is_judged else None

        return list(await asyncio.gather(*(one(number) for number in range(count))))


def report(name: str, seconds: list[float | None]) -> None:
    """One line: how many failed, and the quantiles of the others."""
    answered = [each for each in seconds if each is not None]
    median, p99 = np.quantile(answered, [0.5, 0.99])
    print(
        f"{name:>14}: {len(seconds)} requests, {len(seconds) - len(answered)} failed, "
        f"median {median:.3f} s, p99 {p99:.3f} s, longest {max(answered):.3f} s"
    )


if __name__ == "__main__":
    main()
