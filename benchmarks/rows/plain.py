"""The plain loop beside `judgegym score`: the same request bodies to the same endpoint, as many in flight.

The bodies are those that the command has recorded in its ledger of calls, one a line, encoded as
the client encodes them. The loop runs on the commands' event loop, posts with one aiohttp session,
and reads each answer's JSON.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.judges.core import event_loop
from judgegym.llm import wire
from judgegym.llm.client import open_session


@dataclass(frozen=True, slots=True)
class Looped:
    """What the loop took: seconds of wall time and of this process's CPU."""

    wall_s: float
    cpu_s: float


def write_bodies(run: Path, path: Path) -> int:
    """Write the bodies of the requests of a run, in the order of their answers; return how many there are."""
    count = 0
    with path.open("wb") as file:
        for call in read_calls(run):
            assert call.messages is not None
            body = {
                "model": call.model,
                "messages": wire.messages_json(call.messages),
                **call.parameters,
            }
            file.write(wire.dumps(body) + b"\n")
            count += 1
    return count


def posted(path: Path, url: str, in_flight: int) -> Looped:
    """Send all bodies of a file."""
    return event_loop.run(_posted(path, url, in_flight))


async def _posted(path: Path, url: str, in_flight: int) -> Looped:
    with path.open("rb") as file:
        event_loop.reduce_garbage_collection()
        async with open_session() as session:

            async def worker(bodies: Iterator[bytes]) -> None:
                for body in bodies:
                    headers = {"Content-Type": "application/json"}
                    async with session.post(
                        f"{url}/chat/completions", data=body[:-1], headers=headers
                    ) as response:
                        answer = orjson.loads(await response.read())
                    assert "SCORE" in answer["choices"][0]["message"]["content"], answer

            began, cpu = time.monotonic(), _cpu_s()
            await asyncio.gather(*(worker(file) for _ in range(in_flight)))
            return Looped(time.monotonic() - began, _cpu_s() - cpu)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
