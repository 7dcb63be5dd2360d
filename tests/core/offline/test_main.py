"""The command as a user meets it: a process, its two streams and its exit code."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import judgegym.offline
from judgegym.offline.command import main
from judgegym.offline.faults import FAULTS
from judgegym.offline.process import listen

ROOT = Path(judgegym.offline.__file__).parents[2]
COMMAND = [sys.executable, "-m", "judgegym.offline"]
BODY = {"model": "m", "messages": [{"role": "user", "content": "Describe a lighthouse."}]}
LIMIT = 60.0


@contextmanager
def running(*flags: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command with these flags, and the base URL that its first line gives."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*COMMAND, *flags], cwd=ROOT, text=True, **pipes, **options) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+/v1)\n", line)
            assert found, line
            yield process, found[1]
        finally:
            process.kill()


async def post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> int:
    async with session.post(url + "/chat/completions", json=body) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--faults", '{"429": 1.5}'], ["429", "1.5"]),
        (
            ["--faults", '{"half_header": 1}'],
            ["fault 'half_header'", "400 to 599", *FAULTS],
        ),
        (["--faults"], ["--faults"]),
        (["--slow_ms", "-1"], ["slow_ms", "-1"]),
        (["--away", "5"], ["REQUEST:SECONDS", "'5'"]),
        (["--away", "0:5"], ["away", "0:5"]),
        (["--retry_after", "-1"], ["retry_after", "-1"]),
        (["--port", "65536"], ["--port", "65536"]),
        (["--prompt", "nowhere.py:PROMPT"], ["--prompt", "nowhere.py"]),
        (["--late", "5"], ["--late"]),
        (["--host", "host.invalid"], ["host.invalid"]),
    ],
)
def test_a_wrong_flag_is_one_line_and_code_2(
    flags: list[str], named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(flags)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in named)


@pytest.mark.slow
def test_a_port_in_use_is_one_line_and_code_2() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        run = subprocess.run(
            [*COMMAND, "--port", port], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
        )
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr.count("\n") == 1 and port in run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_it_at_once_also_with_requests_open(
    number: signal.Signals, code: int
) -> None:
    with running("--faults", '{"timeout": 1}') as (process, url):
        async with aiohttp.ClientSession() as session:
            waiting = asyncio.create_task(post(session, url, BODY))
            in_flight = 0
            while in_flight < 1:
                async with session.get(url.removesuffix("/v1") + "/stats") as response:
                    in_flight = (await response.json())["in_flight"]
            process.send_signal(number)
            with pytest.raises(aiohttp.ClientConnectionError):
                await waiting
        out, err = await asyncio.to_thread(process.communicate, timeout=LIMIT)
    assert (process.returncode, out, err) == (code, "", "")


@pytest.mark.slow
def test_the_end_of_input_ends_it_only_when_asked_to() -> None:
    with running("--exit_with_parent") as (process, _):
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (0, "", "")
    with running() as (process, url):
        assert process.stdin is not None
        process.stdin.close()
        assert asyncio.run(_status(url)) == 200


async def _status(url: str) -> int:
    async with aiohttp.ClientSession() as session:
        return await post(session, url, BODY)
