"""The reward server as a process, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.command import PATIENCE_S, ROOT


@contextmanager
def as_process(*flags: str) -> Iterator[str]:
    """The URL of a server that runs for as long as the context lasts; it must end with 0."""
    process = subprocess.Popen(
        [sys.executable, "-m", "judges.server", "--port=0", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert code == 0
