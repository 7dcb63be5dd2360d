"""The event loops: of commands (uvloop where it is installed), and of judges in the background.

Commands use uvloop if it is installed, else asyncio's loop. Both have signal handlers, child
processes, and Ctrl-C that cancels the main task. uvloop's transports do not inherit asyncio's
classes, so no code checks their type. uvloop runs only in JudgeGym's own processes: inside a
trainer or a notebook the loop is asyncio's.

All judges of a process share one event loop on a background thread.

Guarantees: the same judge works in a script without an event loop, in a notebook that runs one, in
    async code, and from a trainer's event loop. HTTP sessions belong to this loop and are closed on
    it when the process ends, so that aiohttp reports no unclosed session. A child that was forked
    after the first use gets an error: the thread does not survive a fork, and the child would wait
    for ever. The background loop is asyncio's, not uvloop's: once libuv has started a child, such
    as a stand-in, the host's SIGCHLD handler is never called again, and PyTorch's loaders have one.
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
    """Raise the limit of open files as far as allowed: each connection is an open file."""
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
    """Exclude all loaded objects from garbage collection, and collect seldom.

    Loaded objects (libraries, rows) live until the end of the process; traversing them would take a
    third of an evaluation's CPU time. Calls make no cycles, but each response with logprobs passes
    Python's threshold of 700 objects several times: these collections took a fifth of the CPU of
    `serve`, and with thousands of concurrent requests more of a server's time than answering them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


_STOP_SECONDS = 5.0


class BackgroundLoop:
    """An event loop on a thread that starts with the first coroutine."""

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
            RuntimeError: called on the loop itself, which would wait for itself for ever.
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
        """Do not call `close` at the end of the process: it has been called already."""
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
    """Call all closers, and cancel the remaining tasks, about which asyncio would complain."""
    await asyncio.gather(*(close() for close in closers), return_exceptions=True)
    await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})


BACKGROUND = BackgroundLoop()
"""The only background loop of the process."""


def run_blocking(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Block the calling thread until `work` is done on the background loop.

    This is a module-level function because Ray copies a trainer's reward function with all globals
    that it names: the loop must not be one of them.
    """
    return BACKGROUND.run(work)
