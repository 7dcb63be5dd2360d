"""The event loop of commands: uvloop where it is installed, asyncio's own elsewhere.

Both have what commands rely on: signal handlers, child processes, Ctrl-C that cancels the main task. The transports of
uvloop do not inherit asyncio's classes, so no code asks for their type. uvloop is for processes of ours only: the loop
inside a trainer or a notebook is asyncio's (`background.py` says why).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a command's coroutine to its end, as `asyncio.run` does."""
    try:
        import uvloop
    except ImportError:  # Windows, PyPy, or an installation of the core alone
        return asyncio.run(main)
    return uvloop.run(main)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new loop, for code that runs and closes it by itself."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def spare_the_collector() -> None:
    """Exclude all objects that are loaded by now (libraries, rows) from garbage collection, and collect seldom.

    They live until the end of the process; traversing them would take a third of an evaluation's CPU time. What a call
    makes is no cycle, but Python's own threshold of 700 objects is passed several times by each answer with logprobs:
    these collections took a fifth of the CPU of `serve`.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
