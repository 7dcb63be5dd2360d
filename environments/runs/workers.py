"""Workers that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable


async def all_of(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run workers to their end; if one raises, or we are cancelled, none is left running."""
    running = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
