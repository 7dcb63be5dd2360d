"""Commands run on uvloop where it is installed, and on asyncio's loop elsewhere."""

from __future__ import annotations

import asyncio
import os
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


@pytest.mark.parametrize("installed", [True, False])
def test_a_signal_handler_is_called_on_either_loop(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)

    async def wait_for_signal() -> str:
        received = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, received.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(received.wait(), 10)
        return "stopped"

    assert event_loop.run(wait_for_signal()) == "stopped"


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
