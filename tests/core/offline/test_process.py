import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

import judgegym.offline
from judgegym.offline import StandIn

ROOT = Path(judgegym.offline.__file__).parents[2]
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Describe a lighthouse."}],
}
LIMIT = 60.0


async def post(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/chat/completions", json=body) as response,
    ):
        return response.status, await response.json()


def listening(url: str) -> bool:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    try:
        socket.create_connection((parts.hostname, parts.port)).close()
    except OSError:
        return False
    return True


def gone(url: str) -> bool:
    """Whether nothing listens there any more, at the latest after a generous time."""
    deadline = time.monotonic() + LIMIT
    while listening(url):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
async def test_serves_within_the_block_and_is_gone_after_it() -> None:
    async with StandIn() as stand_in:
        url = stand_in.base_url
        assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
        assert (await post(url, BODY))[0] == 200
    assert not listening(url)
    with pytest.raises(RuntimeError, match="not running"):
        _ = stand_in.base_url


@pytest.mark.slow
async def test_its_settings_reach_the_server() -> None:
    async with StandIn(latency_ms=0.5, faults={"503": 1.0}, judge_only=True) as stand_in:
        assert (await post(stand_in.base_url, BODY))[0] == 503
    async with StandIn(judge_only=True) as stand_in:
        assert (await post(stand_in.base_url, BODY))[0] == 400


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"latency_ms": -1.0}, "latency_ms"),
        ({"latency_ms": float("nan")}, "latency_ms"),
        ({"faults": {"often": 1.0}}, "often"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        StandIn(**settings)


@pytest.mark.slow
async def test_a_child_that_does_not_start_is_an_error_with_its_own_words() -> None:
    stand_in = StandIn(prompts=["nowhere.py:PROMPT"])
    with pytest.raises(RuntimeError, match=r"did not start.*nowhere\.py"):
        await stand_in.__aenter__()
    with pytest.raises(RuntimeError, match="not running"):
        _ = stand_in.base_url


PARENT = """
import asyncio, sys
from judgegym.offline import StandIn

async def main():
    async with StandIn(faults={"timeout": 0.5}) as stand_in:
        sys.stdout.write(stand_in.base_url + "\\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_child_ends_with_its_parent(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as parent:
        try:
            assert parent.stdout is not None
            url = parent.stdout.readline().strip()
            assert listening(url)
            parent.send_signal(number)
            assert gone(url)
        finally:
            parent.kill()
