"""The processes of a run end with it, and one that ends too early is one message."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.processes import ROOT
from examples.tiny_grpo.children import Child, ChildFailed, Children
from tests.command import eventually

SERVER = ("http.server", "0", "--bind=127.0.0.1")
STARTER = """
import asyncio, sys
from pathlib import Path
from judgegym.engine.command import StopSignal, run_until_stopped
from examples.tiny_grpo.children import Children

async def run():
    async with Children() as children:
        child = await children.start("a server", "http.server", "0", "--bind=127.0.0.1", log=Path(sys.argv[1]))
        print(child.process.pid, flush=True)
        await children.unless_failed(asyncio.sleep(60))
    return 0

try:
    asyncio.run(run_until_stopped(run()))
except StopSignal as stop:
    sys.exit(128 + stop.number)
"""


def is_gone(child: Child) -> bool:
    return child.process.returncode is not None


async def test_a_child_that_ends_too_early_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "seed-0" / "child.log"
    other = None
    with pytest.raises(ChildFailed) as failed:
        async with Children() as children:
            other = await children.start("a server", *SERVER, log=tmp_path / "server.log")
            await children.start("the unknown", "no_such_module", log=log)
            await children.wait_unless_failed(asyncio.sleep(60))
    said = str(failed.value).splitlines()
    assert said[0] == f"the unknown ended with exit code 1; the end of {log}:"
    assert "No module named no_such_module" in said[-1]
    assert other is not None and is_gone(other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_children(number: signal.Signals, tmp_path: Path) -> None:
    words = (sys.executable, "-c", STARTER, str(tmp_path / "log"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        starter.send_signal(number)
        assert starter.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
    eventually(lambda: not is_running(child), "the child is gone")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z"
    except OSError:
        return False
