"""CPU that a call through the chat client costs over a bare aiohttp loop.

Both send the same requests to the same stand-in server (another process), in turn and several times; what is compared
is this process's own CPU time, so the server's does not count. Prints one line for each round and the median
difference.

    python benchmarks/client_overhead.py [--calls 2000] [--concurrency 256] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import orjson

from judges.llm.client import ChatClient, ChatSettings
from judges.llm.replicas import Endpoint
from judges.llm.transport import open_session
from judges.llm.wire import Message
from judges.offline import StandIn

MESSAGES = [Message(role="user", content="Say something about the sea. " * 20)]


async def main(calls: int, concurrency: int, rounds: int) -> None:
    """Measure and print."""
    async with StandIn() as server, open_session() as session:
        settings = ChatSettings((Endpoint(server.base_url, "m"),), temperature=0.7, max_concurrency=concurrency)
        client = ChatClient(settings, session=session)
        url = f"{server.base_url}/chat/completions"

        async def bare() -> None:
            body = orjson.dumps({"model": "m", "messages": MESSAGES, "temperature": 0.7})
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                orjson.loads(await response.read())

        async def ours() -> None:
            await client.chat(MESSAGES)

        await measure(bare, calls, concurrency)  # connections, caches
        await measure(ours, calls, concurrency)
        differences = []
        for number in range(1, rounds + 1):
            raw = await measure(bare, calls, concurrency)
            full = await measure(ours, calls, concurrency)
            differences.append(full - raw)
            print(f"round {number}: bare {raw:.3f} ms, client {full:.3f} ms of CPU a call")
        print(f"median difference: {statistics.median(differences):.3f} ms of CPU a call")


async def measure(call: Callable[[], Awaitable[None]], calls: int, concurrency: int) -> float:
    """Milliseconds of this process's CPU for one of `calls` calls, `concurrency` at once."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return 1000 * (time.process_time() - started) / calls


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.calls, arguments.concurrency, arguments.rounds))
