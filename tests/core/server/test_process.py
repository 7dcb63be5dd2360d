"""`python -m judgegym.server` as a process: bad input, signals, workers."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.command import PATIENCE_S, ROOT, eventually, serving
from tests.core.server.served import as_process, run, started
from tests.scripted import Json

BODY = json.dumps({"prompt": "Why?", "response": "Because."}).encode()


def post(url: str, path: str = "/v1/score", body: bytes = BODY) -> Any:
    request = urllib.request.Request(
        url + path, data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--judge=rubik", "--offline"], ["--judge", "did you mean rubric"]),
        (["--jugde=rubric"], ["--jugde", "--judge"]),
        (["--config=missing.yaml"], ["missing.yaml"]),
        (
            ["--offline", "--judge=listwise", "--schedule=swiss"],
            ["--schedule (command line)", "--judge=tournament"],
        ),
        (
            ["--offline", "--judge=listwise", "--for=openrlhf"],
            ["--for: openrlhf", "listwise", "--group_size"],
        ),
        (["--offline", "--host=0.0.0.0"], ["0.0.0.0", "token"]),
        (["--offline", '--mounts={"v1": {}}'], ["mounts", "'v1'"]),
        (["--offline", "--workers=0"], ["--workers", "greater than or equal to 1"]),
        (
            ["--offline", "--judge=listwise", "--group_size=4", "--workers=2"],
            ["--group_size: a cohort needs one worker", "some 3,000 requests", "Use --workers=1"],
        ),
        (["--offline", "--for=openrlfh"], ["--for", "openrlhf"]),
        (
            ['--faults={"latency_ms": 5}', "--judge_base_url=http://127.0.0.1:1/v1"],
            ["--faults", "--offline"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(flags: list[str], words: list[str]) -> None:
    ended = run(
        *flags, *(() if any(flag.startswith("--port") for flag in flags) else ("--port=0",))
    )
    assert ended.code == 2
    assert [word for word in words if word not in ended.err] == []
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_a_port_in_use() -> None:
    with as_process("--offline") as url:
        ended = run("--offline", f"--port={url.rsplit(':', 1)[1]}")
    assert ended.code == 2
    assert "in use" in ended.err
    assert "Traceback" not in ended.err


def test_no_secret_is_shown() -> None:
    flags = [
        "--judge_api_key=sk-own",
        '--tokens={"a": "sk-token"}',
        '--mounts={"m": {"judge_api_key": "sk-mounted"}}',
    ]
    ended = run("--show_config", *flags)
    assert ended.code == 0, ended.said
    assert "judge_critique_rounds" in ended.out
    assert "sk-" not in ended.said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered_before_the_end(number: signal.Signals) -> None:
    """The judge answers only when the server takes no further connection."""
    closed = threading.Event()

    async def script(request: Json, count: int) -> str:
        await asyncio.to_thread(closed.wait, PATIENCE_S)
        return "[FEEDBACK] fine [SCORE] 5"

    with serving(script) as judge, started(f"--judge_base_url={judge.base_url}") as (process, url):
        with ThreadPoolExecutor(1) as thread:
            asking = thread.submit(post, url)
            eventually(lambda: bool(judge.requests), "a request is under way")
            process.send_signal(number)
            eventually(lambda: not listens(url), "no further connection is taken")
            closed.set()
            score = asking.result(PATIENCE_S)["score"]
        process.communicate(PATIENCE_S)
        assert process.returncode == 0
    assert score == 1.0


def listens(url: str) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_the_preset_for_groups_can_be_tried_without_a_key(tmp_path: Path) -> None:
    preset = ROOT / "configs" / "reward_server_group.yaml"
    body = json.dumps(
        {"prompt": "Why?", "responses": ["Because.", "Because of why.", "No."]}
    ).encode()
    with as_process(
        f"--config={preset}", "--offline", f"--judge_cache={tmp_path / 'cache.sqlite'}"
    ) as url:
        for path in ("/v1/score", "/games/v1/score"):
            assert all(
                0 <= result["score"] <= 1 for result in post(url, path, body=body)["results"]
            )
