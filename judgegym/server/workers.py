"""`--workers N`: a supervisor and N worker processes that share a port (SO_REUSEPORT).

Guarantees: each worker has a number from 0 to N - 1, which its replacement inherits; the workers'
counters are in a directory that only this user may enter, and that is deleted when the supervisor
ends. Workers end with their supervisor, even if it is killed. Settings that need a single process
are refused (`RewardServerSettings.check_processes`).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judgegym.llm.errors import UserError
from judgegym.server.operation import MULTIPROCESS, forget_worker
from judgegym.server.settings import RewardServerSettings

logger = logging.getLogger(__name__)

_WORKER = "JUDGES_SERVER_WORKER"
"""Environment variable that tells a worker its number, its supervisor and its directory."""
_POLL_S = 0.2
_AGAIN_S = 1.0
"""Seconds between two starts of a worker, so that one that always dies keeps no core busy."""


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """The place of this process among the workers.

    Attributes:
        number: from 0; a replacement worker gets the number of the dead one.
        directory: private to the workers; they mark here that they have started.
        supervisor: a pipe that closes when the supervisor ends.
    """

    number: int
    directory: Path
    supervisor: int

    @property
    def started(self) -> Path:
        """The file that marks this worker as started; then it is replaced if it dies."""
        return self.directory / f"{self.number}.started"


def find_worker() -> WorkerIdentity | None:
    """Return the place of this process among the workers; `None` if it is no worker."""
    if _WORKER not in os.environ:
        return None
    number, supervisor, directory = os.environ[_WORKER].split(":", 2)
    return WorkerIdentity(int(number), Path(directory), int(supervisor))


def worker_file(path: Path | None) -> Path | None:
    """Return the file that this process writes: with several workers, one file for each process."""
    if path is None or not find_worker():
        return path
    process = os.getpid()
    return path.with_stem(f"{path.stem}-{process}")


def supervise(
    settings: RewardServerSettings, arguments: Sequence[str], check: Callable[[], object]
) -> int:
    """Run the workers until a signal comes, and replace workers that die.

    If a worker cannot start at the beginning, all end.

    Args:
        settings: number of workers, host and port.
        arguments: the command line, passed on to the workers.
        check: reads the settings again at SIGHUP; the workers reload if it raises no error.

    Returns:
        The exit code.

    Raises:
        OSError: the address cannot be bound.
    """
    with (
        tempfile.TemporaryDirectory() as counters,
        tempfile.TemporaryDirectory() as directory,
        _reserve_port(settings) as port,
    ):
        command = [sys.executable, "-m", "judgegym.server", *arguments, f"--port={port}"]
        alive, _ = os.pipe()  # the other end is this process's alone
        stopping = list[int]()
        reloading = list[int]()
        has_hung_up = terminal_watch()
        for stop_signal in STOP_SIGNALS:
            signal.signal(stop_signal, lambda received, _: stopping.append(received))
        signal.signal(
            signal.SIGHUP,
            lambda received, _: (stopping if has_hung_up() else reloading).append(received),
        )
        identities = [
            WorkerIdentity(number, Path(directory), alive) for number in range(settings.workers)
        ]
        pool = [_Worker(identity, command, counters) for identity in identities]
        code = 0
        while not stopping and code == 0:
            time.sleep(_POLL_S)
            if reloading and all(
                worker.has_started for worker in pool
            ):  # until then SIGHUP would end a worker
                reloading.clear()
                _reload(pool, check)
            for worker in pool:
                if not stopping and code == 0:
                    code = worker.replace_if_dead()
        for worker in pool:
            worker.process.send_signal(signal.SIGTERM)
        for worker in pool:
            worker.process.wait()
        return code


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def terminal_watch() -> Callable[[], bool]:
    """Return a function that tells at SIGHUP whether this process has lost its terminal.

    SIGHUP is then a hang-up and no request to reload. Under `nohup`, which ignores SIGHUP, the
    server outlives its terminal.
    """
    handles_signal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    had_terminal = handles_signal and os.isatty(0)
    return lambda: had_terminal and not os.isatty(0)


def _reload(pool: Sequence[_Worker], check: Callable[[], object]) -> None:
    """Tell the workers to reload; if the settings are wrong, report that once instead."""
    try:
        check()
    except (UserError, OSError) as error:
        reason = "; ".join(str(error).splitlines())
        sys.stderr.write(f"the new settings are refused, and the old ones stay: {reason}\n")
        return
    for worker in pool:
        worker.process.send_signal(signal.SIGHUP)


class _Worker:
    """A worker, and its replacements after it dies."""

    def __init__(self, identity: WorkerIdentity, command: Sequence[str], counters: str) -> None:
        self._command = command
        self._place = identity
        variable = f"{identity.number}:{identity.supervisor}:{identity.directory}"
        self._environment = {**os.environ, MULTIPROCESS: counters, _WORKER: variable}
        self._start()

    def _start(self) -> None:
        self._since = time.monotonic()
        # In its own session: Ctrl-C must reach the workers once, through the supervisor.
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            start_new_session=True,
            pass_fds=[self._place.supervisor],
        )

    @property
    def has_started(self) -> bool:
        """Whether this worker, or one that it replaced, has served."""
        return self._place.started.exists()

    def replace_if_dead(self) -> int:
        """Replace the worker if it died; return its exit code if it never started."""
        code = self.process.poll()
        if code is None:
            return 0
        if not self.has_started:
            return code or 1
        if time.monotonic() - self._since >= _AGAIN_S:
            sys.stderr.write(f"a worker ended with code {code}: it is replaced\n")
            forget_worker(self.process.pid, self._environment[MULTIPROCESS])
            self._start()
        return 0


@contextmanager
def _reserve_port(settings: RewardServerSettings) -> Iterator[int]:
    """Reserve a port, so that no other program takes it.

    Raises:
        OSError: the port cannot be bound.
    """
    family = socket.AF_INET
    if ":" in settings.host:
        family = socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((settings.host, settings.port))
        yield int(listener.getsockname()[1])


_SERVERS = frozenset({"uvicorn", "gunicorn", "hypercorn", "granian"})
_FLAG = re.compile(r"(?:-w|--workers)(?:=?(\d+))?", re.ASCII)


def count_server_processes() -> int:
    """Return how many processes this process's ASGI server runs, as far as one of them can tell."""
    if _is_started_by_a_server():
        return count_processes(sys.argv, os.environ)
    return 1


def count_processes(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Return how many processes a server's command line or environment asks for; 1 if neither says.

    Args:
        arguments: the command line; ignored unless it is an ASGI server's.
        variables: the environment.
    """
    count = variables.get("WEB_CONCURRENCY", "")
    names = set[str]()
    if arguments:  # a script, or `python -m`
        program = Path(arguments[0])
        names = {program.stem, program.parent.name}
    if _SERVERS & names:
        for number, word in enumerate(arguments):
            flag = _FLAG.fullmatch(word)
            if flag is not None:
                following = arguments[number + 1 : number + 2]
                count = flag[1] or "".join(following)
    if count.isdecimal():
        return int(count)
    return 1


def _is_started_by_a_server() -> bool:
    """Return whether a parent process may have started several processes like this one."""
    return multiprocessing.parent_process() is not None or os.environ.get(
        "SERVER_SOFTWARE", ""
    ).startswith("gunicorn")
