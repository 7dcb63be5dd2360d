"""The event loop of commands: uvloop where it is installed, asyncio's own elsewhere.

Both have what commands rely on: signal handlers, child processes, Ctrl-C that cancels the main
task. The transports of uvloop do not inherit asyncio's classes, so no code asks for their type.
uvloop is for processes of ours only: the loop inside a trainer or a notebook is asyncio's.

One event loop on a background thread, for all judges of a process.

Guarantees: the same judge works in a script without an event loop, in a notebook that runs one, in
async code, and from a trainer's event loop. HTTP sessions belong to this one loop and are closed on
it when the process ends, so that
aiohttp reports no unclosed session. A child that was forked after the first use is told so: the
thread does not survive a fork, and the child would wait for it for ever. The loop is asyncio's own,
not uvloop's (`event_loop.py`): once libuv has started a child, such as a stand-in, the host's
handler of SIGCHLD is never called again, and PyTorch's loaders have one.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import SettingsError

ResultT = TypeVar("ResultT")


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a command's coroutine to its end, as `asyncio.run` does."""
    try:
        import uvloop
    except ImportError:  # Windows, PyPy, or an installation of the core alone
        return asyncio.run(main)
    return uvloop.run(main)


def raise_open_file_limit() -> None:
    """Raise the limit of open files as far as the system allows, because each connection is an open file."""
    try:
        import resource  # late: Windows has none
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(
        ValueError, OSError
    ):  # some systems refuse even the limit that they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def reduce_garbage_collection() -> None:
    """Exclude all objects that are loaded by now (libraries, rows) from garbage collection, and collect seldom.

    They live until the end of the process; traversing them would take a third of an evaluation's
    CPU time. What a call makes is no cycle, but Python's own threshold of 700 objects is passed
    several times by each answer with logprobs: these collections took a fifth of the CPU of
    `serve`, and with thousands of requests in flight more time of a server than to answer them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


_STOP_SECONDS = 5.0


class BackgroundLoop:
    """Runs coroutines on a thread that starts with the first one."""

    def __init__(self) -> None:
        """Create no thread yet."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.current_thread()
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._process = os.getpid()

    def submit(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start `work`; the future gets its result or exception.

        Raises:
            SettingsError: this process was forked from one that had used the loop.
        """
        try:
            loop = self._start_loop()
        except SettingsError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Block the calling thread until `work` is done; Ctrl-C cancels it.

        Raises:
            RuntimeError: called on the loop itself, which would wait for ever.
        """
        future = self.submit(work)
        if threading.current_thread() is self._thread:
            future.cancel()
            raise RuntimeError(
                "the background loop cannot wait for itself: await the asynchronous form instead"
            )
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    async def join(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Wait for `work` from the caller's event loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    def close_at_exit(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `close` on the loop when the process ends."""
        self._closers.append(close)

    def forget(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do not call `close` at the end of the process, because it has been called already."""
        self._closers = [closer for closer in self._closers if closer != close]

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is not None and self._process != os.getpid():
                raise SettingsError(
                    "judges were used before this process was forked: start it with the method "
                    "spawn"
                )
            if self._loop is None:
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="judgegym", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def _stop(self) -> None:
        loop, closers = self._loop, list(self._closers)
        if self._process != os.getpid() or loop is None or not loop.is_running():
            return
        try:
            asyncio.run_coroutine_threadsafe(_close_all(closers), loop).result(_STOP_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_STOP_SECONDS)
            if not self._thread.is_alive():
                loop.close()


async def _close_all(closers: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Call all of them, and end the work that nobody waits for any more, of which asyncio would complain."""
    await asyncio.gather(*(close() for close in closers), return_exceptions=True)
    await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})


BACKGROUND = BackgroundLoop()
"""The only background loop of the process."""


def run_blocking(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Block the calling thread until `work` is done on the background loop.

    A function of this module, so that Ray, which copies a trainer's reward function with all
    globals that it names, need not copy the loop.
    """
    return BACKGROUND.run(work)
