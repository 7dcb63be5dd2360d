"""Worker processes for rules that no bound on their time is known for. A worker that takes too long is killed.

`math-verify` has a time limit of its own, which works in the main thread alone; Python's `re` has none.

Guarantees: no response blocks the event loop (opening a judge waits for its worker); the time limit holds for what a
rule does with one response, and begins when its library or file is loaded; a process judges in at most as many workers
as it has CPUs, and at most 8; they end with the process; where it is killed, a busy one ends at the latest two minutes
and twice its limit later. A fork of the process starts its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import FileIO
from typing import NamedTuple

from judgegym.judges.rules.finding import RuleFinding, cannot_say, shorten

_LOAD_S = 120.0
"""For Python to start, and to load a library or the user's file."""
_MOST_WORKERS = 8
_MEMORY = 4 << 30
"""Bytes of memory that a library may use for one response."""
_LOADED = b"\0"
_CODE = "import sys; sys.path[:] = {path!r}; from judgegym.judges.rules.worker import work; work()"


class Job(NamedTuple):
    """What a worker is to do.

    Attributes:
        load: a function of this package: it loads a library or the user's file, and returns what applies the rule.
        of_load: its arguments.
        arguments: what the rule is applied to, such as a text and the expected value; `None` if it is loaded alone.
    """

    load: Callable[..., Callable[..., RuleFinding]]
    of_load: tuple[str, ...]
    arguments: tuple[object, ...] | None


class JobFailure(str):
    """Why a job has no finding: what was raised, with its type, or that the worker has died."""


async def apply_in_worker(job: Job, limit_s: float) -> RuleFinding | JobFailure:
    """Apply a rule in a worker. Never raises because of the job."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), apply_now, job, limit_s)


def apply_now(job: Job, limit_s: float) -> RuleFinding | JobFailure:
    """Apply a rule in the worker of this thread, which waits for it."""
    child: subprocess.Popen[bytes] | None = getattr(_OF_THREAD, "child", None)
    if child is None or child.poll() is not None:
        command = [sys.executable, "-c", _CODE.format(path=sys.path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        _OF_THREAD.child = child
        _CHILDREN.add(child)
    assert child.stdin is not None and child.stdout is not None  # both are pipes
    with contextlib.suppress(BrokenPipeError):  # it has died, and is not readable either
        child.stdin.write(pickle.dumps((job, limit_s)))
        child.stdin.flush()
    pipe = child.stdout.fileno()
    data = _read(pipe, _LOAD_S)
    if data == _LOADED:
        data = _read(pipe, limit_s)
    if data:
        found: RuleFinding | JobFailure = pickle.loads(data.removeprefix(_LOADED))
        return found
    _kill(child)
    if data is None:
        return cannot_say(f"timeout after {limit_s:g} s")
    return JobFailure(f"its process has died (exit code {child.returncode})")


def _read(pipe: int, timeout_s: float) -> bytes | None:
    """What the worker has written: an answer is one write; nothing if it has died, `None` if it takes too long."""
    poll = select.poll()  # select() refuses the file numbers of a process with many connections
    poll.register(pipe, select.POLLIN)
    return os.read(pipe, 1 << 16) if poll.poll(timeout_s * 1000) else None


_OF_THREAD = threading.local()
_CHILDREN: set[subprocess.Popen[bytes]] = set()


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a worker, with what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    _CHILDREN.discard(child)


@lru_cache
def _threads() -> ThreadPoolExecutor:
    """A thread for each worker, which waits for it."""
    return ThreadPoolExecutor(min(_MOST_WORKERS, len(os.sched_getaffinity(0))), thread_name_prefix="rule")


@atexit.register
def _kill_all() -> None:
    for child in [*_CHILDREN]:
        _kill(child)


def _forget() -> None:
    """In a fork: threads are not there, and the workers are the parent's."""
    vars(_OF_THREAD).clear()
    _CHILDREN.clear()
    _threads.cache_clear()


os.register_at_fork(after_in_child=_forget)


def work() -> None:
    """Apply rules until the parent closes the pipe. What functions print goes to standard error."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), FileIO(os.dup(1), "w")
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123  # a device
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        while True:
            try:
                job, limit_s = pickle.load(jobs)
            except EOFError:
                return
            # Where the parent is gone nobody kills it.
            faulthandler.dump_traceback_later(_LOAD_S + 2 * limit_s, exit=True, file=nothing)
            answers.write(pickle.dumps(_apply(job, answers)))
            faulthandler.cancel_dump_traceback_later()


def _apply(job: Job, answers: FileIO) -> RuleFinding | JobFailure:
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    unlimited = job.of_load or 0 <= most < _MEMORY  # the user's own function may need what it needs
    resource.setrlimit(resource.RLIMIT_AS, (most if unlimited else _MEMORY, most))
    try:
        apply = job.load(*job.of_load)
        answers.write(_LOADED)
        return cannot_say("nothing to apply") if job.arguments is None else apply(*job.arguments).shortened()
    except BaseException as error:  # noqa: BLE001  # whatever a library or a user's function raises, sys.exit() too
        return JobFailure(shorten(f"{type(error).__name__}: {error}"))
