"""Servers as processes of their own: their URL, their CPU and their memory, as Linux counts them."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def allow_descriptors() -> None:
    """Allow this process as many open files as the system does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    url: str
    pid: int

    @property
    def pids(self) -> list[int]:
        """The process and its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def cpu(self) -> float:
        """Seconds of CPU so far, of user and system, of the process and its children."""
        return sum(_cpu(pid) for pid in self.pids)

    def mib(self, field: str) -> float:
        """MiB of memory of the process and its children: `VmRSS` now, `VmHWM` at its most."""
        return sum(_memory(pid, field) for pid in self.pids)


def _cpu(pid: int) -> float:
    """Of all threads, in the scheduler's nanoseconds: those of `/proc/PID/stat` are hundredths of a second."""
    return (
        sum(
            int(task.read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )
        / 1e9
    )


def _memory(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


@contextmanager
def running(module: str, *arguments: str, listeners: int = 1) -> Iterator[Running]:
    """Start `python -m module`, which says its URL in its first line, each of its `listeners` one."""
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(listeners)]
        if not all(lines):
            raise RuntimeError(
                f"{' '.join(command[2:3])} does not start: exit code {process.wait()}"
            )
        yield Running(lines[0].split()[-1], process.pid)
    finally:
        process.terminate()
        process.wait()
