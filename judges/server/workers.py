"""`--workers N`: a supervisor and N worker processes that share a port (SO_REUSEPORT)."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from judges.server.operation.telemetry import MULTIPROCESS, forget_worker
from judges.server.settings import RewardServerSettings

logger = logging.getLogger(__name__)

_WORKER = "JUDGES_SERVER_WORKER"
_POLL_S = 0.2
_QUICK_S = 5.0
"""A worker that ends sooner than this is not restarted: it would end again."""


def is_worker() -> bool:
    """Whether this process is a worker."""
    return _WORKER in os.environ


def own_file(path: Path | None) -> Path | None:
    """The path that this process writes to where all workers are given the same one."""
    return path.with_stem(f"{path.stem}-{os.getpid()}") if path is not None and is_worker() else path


def supervise(settings: RewardServerSettings, arguments: Sequence[str]) -> int:
    """Run the workers until a signal comes; restart one that dies, unless it died at its start.

    Args:
        settings: number of workers, host and port.
        arguments: the command line, passed on to the workers.

    Returns:
        The exit code.

    Raises:
        OSError: the address cannot be bound.
    """
    with tempfile.TemporaryDirectory() as counters, _reserved(settings) as port:
        command = [sys.executable, "-m", "judges.server", *arguments, f"--port={port}"]
        environment = {**os.environ, _WORKER: "1", MULTIPROCESS: counters}
        stopping: list[int] = []
        for stop_signal in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop_signal, lambda received, _: stopping.append(received))
        started = time.monotonic()
        # In sessions of their own: Ctrl-C must reach the workers once, through the supervisor.
        running = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(settings.workers)]
        code = 0
        while not stopping and code == 0:
            time.sleep(_POLL_S)
            for number, worker in enumerate(running):
                if worker.poll() is None or stopping:
                    continue
                if time.monotonic() - started < _QUICK_S:
                    code = worker.returncode or 1
                    break
                sys.stderr.write(f"a worker ended with code {worker.returncode}: it is replaced\n")
                forget_worker(worker.pid, counters)
                running[number] = subprocess.Popen(command, env=environment, start_new_session=True)
        for worker in running:
            worker.send_signal(signal.SIGTERM)
        for worker in running:
            worker.wait()
        return code


@contextmanager
def _reserved(settings: RewardServerSettings) -> Iterator[int]:
    """A port that is bound, but not listened at, while the context lasts, so that no other program takes it.

    Raises:
        OSError: it cannot be bound.
    """
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((settings.host, settings.port))
        yield int(held.getsockname()[1])
