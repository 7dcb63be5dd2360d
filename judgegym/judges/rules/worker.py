"""Worker processes for rules without a known time bound; a slow worker is killed.

`math-verify` has a time limit of its own, which works only in the main thread; Python's `re` has
none.

Guarantees: no response blocks the event loop (opening a judge waits for its worker). The time limit
holds for a rule's work on one response, and begins when its library or file is loaded. A worker's
reply names its job, and a process that a user's function forks ends where the function ends in it,
so that no response has the score of another. A process judges in at most as many workers as it has
CPUs, and at most 8. They end with the process; where it is killed, a busy worker ends at the latest
two minutes and twice its limit later. A fork of the process starts its own.
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
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import FileIO
from typing import Literal, NamedTuple

from judgegym.judges.rules.finding import RuleFinding, cannot_say, shorten

_LOAD_S = 120.0
"""For Python to start, and to load a library or the user's file."""
_MOST_WORKERS = 8
_MEMORY = 4 << 30
"""Bytes of memory that a library may use for one response."""
_LENGTH = struct.Struct("!Q")
"""The bytes of an answer, before it."""
_CODE = "import sys; sys.path[:] = {path!r}; from judgegym.judges.rules.worker import work; work()"


class Job(NamedTuple):
    """Job of a worker.

    Attributes:
        load: a function of this package that loads a library or the user's file and returns the
            function that applies the rule.
        load_arguments: its arguments.
        arguments: the arguments of the rule, such as a text and the expected value; `None` to load
            it only.
    """

    load: Callable[..., Callable[..., RuleFinding]]
    load_arguments: tuple[str, ...]
    arguments: tuple[object, ...] | None


class JobFailure(str):
    """Why a job has no finding: the exception with its type, or that the worker died."""


async def apply_in_worker(job: Job, limit_s: float) -> RuleFinding | JobFailure:
    """Apply a rule in a worker. Never raises because of the job."""
    return await asyncio.get_running_loop().run_in_executor(_thread_pool(), apply_now, job, limit_s)


def apply_now(job: Job, limit_s: float) -> RuleFinding | JobFailure:
    """Apply a rule in this thread's worker, and wait for it."""
    worker: _Worker | None = getattr(_THREAD_STATE, "worker", None)
    if worker is None or worker.has_died:
        worker = _THREAD_STATE.worker = _Worker()
    return worker.apply(job, limit_s)


class _Answer(NamedTuple):
    """What a worker writes about a job: that it is loaded, or its outcome."""

    number: int
    outcome: RuleFinding | JobFailure | None


class _Worker:
    """Worker process, as seen by the thread that waits for its answers."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _CODE.format(path=sys.path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        _CHILDREN.add(self._process)
        self._loaded: set[tuple[object, ...]] = set()
        self._number = 0
        self._unread = bytearray()

    @property
    def has_died(self) -> bool:
        """Whether it takes no more jobs."""
        return self._process.poll() is not None

    def apply(self, job: Job, limit_s: float) -> RuleFinding | JobFailure:
        """Send a job and wait for its answer. A worker that takes too long is killed."""
        self._number += 1
        assert self._process.stdin is not None  # a pipe
        with contextlib.suppress(BrokenPipeError):  # the worker has died; reading fails, too
            self._process.stdin.write(pickle.dumps((self._number, job, limit_s)))
            self._process.stdin.flush()
        loads = (job.load, *job.load_arguments)
        answer = self._read(limit_s if loads in self._loaded else _LOAD_S)
        if isinstance(answer, _Answer) and answer.outcome is None:
            self._loaded.add(loads)
            answer = self._read(limit_s)
        if isinstance(answer, _Answer) and answer.outcome is not None:
            return answer.outcome
        _kill(self._process)
        if answer == "late":
            return cannot_say(f"timeout after {limit_s:g} s")
        return JobFailure(f"its process has died (exit code {self._process.returncode})")

    def _read(self, timeout_s: float) -> _Answer | Literal["late", "ended"]:
        """Read the next answer to the job that was sent last; skip answers to others."""
        deadline = time.monotonic() + timeout_s
        assert self._process.stdout is not None  # a pipe
        pipe = self._process.stdout.fileno()
        poll = select.poll()  # select() fails for file descriptors above 1023
        poll.register(pipe, select.POLLIN)
        while True:
            answer = self._next_answer()
            if answer is not None and answer.number == self._number:
                return answer
            if answer is not None:
                continue
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return "late"
            data = os.read(pipe, 1 << 16)
            if not data:
                return "ended"
            self._unread += data

    def _next_answer(self) -> _Answer | None:
        """Take the first complete answer of what was read."""
        head = _LENGTH.size
        if len(self._unread) < head:
            return None
        (length,) = _LENGTH.unpack_from(self._unread)
        if len(self._unread) < head + length:
            return None
        answer: _Answer = pickle.loads(bytes(self._unread[head : head + length]))
        del self._unread[: head + length]
        return answer


_THREAD_STATE = threading.local()
_CHILDREN: set[subprocess.Popen[bytes]] = set()


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a worker, with what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    _CHILDREN.discard(child)


@lru_cache
def _thread_pool() -> ThreadPoolExecutor:
    """Return the thread pool, with a thread for each worker."""
    return ThreadPoolExecutor(
        min(_MOST_WORKERS, len(os.sched_getaffinity(0))), thread_name_prefix="rule"
    )


@atexit.register
def _kill_all() -> None:
    for child in [*_CHILDREN]:
        _kill(child)


def _reset_after_fork() -> None:
    """Reset after a fork: threads are not there, and the workers are the parent's."""
    vars(_THREAD_STATE).clear()
    _CHILDREN.clear()
    _thread_pool.cache_clear()


os.register_at_fork(after_in_child=_reset_after_fork)


def work() -> None:
    """Apply rules until the parent closes the pipe. Functions print to standard error."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), FileIO(os.dup(1), "w")
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123  # a device
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        while True:
            try:
                number, job, limit_s = pickle.load(jobs)
            except EOFError:
                return
            # If the parent is gone, nobody else ends this process.
            faulthandler.dump_traceback_later(_LOAD_S + 2 * limit_s, exit=True, file=nothing)
            _write_answer(answers, number, _apply_job(number, job, answers))
            faulthandler.cancel_dump_traceback_later()


def _write_answer(answers: FileIO, number: int, outcome: RuleFinding | JobFailure | None) -> None:
    data = pickle.dumps(_Answer(number, outcome))
    answers.write(_LENGTH.pack(len(data)) + data)


def _apply_job(number: int, job: Job, answers: FileIO) -> RuleFinding | JobFailure:
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    # The user's own function has no memory limit.
    unlimited = job.load_arguments or 0 <= most < _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most if unlimited else _MEMORY, most))
    process = os.getpid()
    try:
        apply = job.load(*job.load_arguments)
        _leave_fork(process, 0)
        _write_answer(answers, number, None)
        if job.arguments is None:
            finding = cannot_say("nothing to apply")
        else:
            finding = apply(*job.arguments).shorten_texts()
        _leave_fork(process, 0)
    # A library or a user's function may raise anything, or call sys.exit().
    except BaseException as error:  # noqa: BLE001
        _leave_fork(process, 1)
        kind = type(error).__name__
        return JobFailure(shorten(f"{kind}: {error}"))
    return finding


def _leave_fork(process: int, code: int) -> None:
    """End this process if it is a fork that a user's function left behind.

    Only the worker itself answers.
    """
    if os.getpid() != process:
        os._exit(code)
