"""Commands run on uvloop where it is installed, and on asyncio's loop elsewhere."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from judgegym.judges.core import event_loop
from judgegym.judges.core.event_loop import BackgroundLoop
from tests.command import eventually


async def _module_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_a_command_runs_on_uvloop() -> None:
    assert event_loop.run(_module_of_loop()) == "uvloop"


def test_a_command_runs_on_asyncio_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(_module_of_loop()) == "asyncio"


def test_the_background_loop_leaves_the_hosts_handler_of_children_alone() -> None:
    """A trainer's loaders learn by it that a worker has died."""
    seen: list[int] = []
    host = signal.signal(signal.SIGCHLD, lambda number, frame: seen.append(number))
    background = BackgroundLoop()
    try:
        background.run(_start_a_child())
        seen.clear()
        subprocess.run([sys.executable, "-c", ""], check=True)
        eventually(lambda: bool(seen), "the host's handler was called")
    finally:
        signal.signal(signal.SIGCHLD, host)


async def _start_a_child() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await child.wait()
