"""Run commands as processes that end with this one.

Guarantees: each process has its own session, so that a Ctrl-C in the terminal reaches this process
alone. When the block or the wait ends, for whatever reason, the command gets SIGINT, and is killed
some seconds later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from examples.processes import ROOT, process_variables

JUDGEGYM = (sys.executable, "-m", "judgegym")
_END_S = 10.0


@contextmanager
def run_command(words: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command while the block lasts; its output goes to a file."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=process_variables(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def run_to_end(words: Sequence[str], output: Path) -> int:
    """Run a command to its end, and return its exit code."""
    with run_command(words, output) as process:
        return process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        os.killpg(process.pid, signal.SIGKILL)  # including its children
    process.wait()
