"""What a subject spends on its judgments: CPU seconds of its own process, without starting, importing and warming up.

It runs in the environment of a peer, so that it imports nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

QUESTION = "How do I keep a small vegetable garden alive through a dry summer?"
ANSWER = (
    "Water early in the morning, cover the soil with straw, and choose plants that like the heat. "
    * 10
)
CRITERION = "Is the submission factually accurate and free from errors?"
WARM_UP = 64

Judge = Callable[[str], Awaitable[bool]]
"""Asks for the verdict on an answer, which the endpoint always gives as yes."""


def run(package: str, opened: Callable[[str], Judge]) -> None:
    """Judge, and print what that took as JSON; the command line has the endpoint, the calls, and how many at once.

    Args:
        package: the distribution that is measured.
        opened: imports it and opens a judge of the endpoint at a base URL.
    """
    base_url, calls, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    began = time.process_time()
    judge = opened(base_url)
    import_s = time.process_time() - began

    async def measure() -> float:
        await judged(judge, range(WARM_UP), at_once)
        before = time.process_time()
        await judged(judge, range(WARM_UP, WARM_UP + calls), at_once)
        return time.process_time() - before

    cpu_s = asyncio.run(measure())
    print(
        json.dumps(
            {"version": version(package), "import_s": import_s, "cpu_ms": cpu_s / calls * 1000}
        )
    )


async def judged(judge: Judge, numbers: range, at_once: int) -> None:
    """Judge an answer for each number, each another one, so many at once."""
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            assert await judge(f"{number}. {ANSWER}"), (
                "the endpoint said yes, and the judge read no"
            )

    await asyncio.gather(*(worker() for _ in range(at_once)))
