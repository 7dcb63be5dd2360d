"""`python -m judges.server` as a process: bad input, signals, workers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import PATIENCE_S, ROOT, serving
from tests.judges.server.served import as_process
from tests.scripted import Reply

COMMAND = [sys.executable, "-m", "judges.server"]
BODY = json.dumps({"prompt": "Why?", "response": "Because."}).encode()


def post(url: str, path: str = "/v1/score", body: bytes = BODY) -> Any:
    request = urllib.request.Request(url + path, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--judge=rubik", "--offline"], ["--judge", "arena_hard"]),
        (["--jugde=rubric"], ["--jugde", "--judge"]),
        (["--config=missing.yaml"], ["missing.yaml"]),
        (["--judge=rubric"], ["judge_api_key_env", "ANTHROPIC_API_KEY"]),
        (["--offline", "--host=0.0.0.0"], ["0.0.0.0", "token"]),
        (["--offline", '--mounts={"v1": {}}'], ["mounts", "'v1'"]),
        (["--offline", '--mounts={"safety": {"strictnes": 3}}'], ["mounts.safety.strictnes"]),
        (["--offline", '--mounts={"safety": {"strictness": 0}}'], ["mounts.safety.strictness"]),
        (["--offline", "--scale_min=5", "--scale_max=5"], ["scale_max"]),
        (["--latency_ms=5", "--judge_base_url=http://127.0.0.1:1/v1"], ["--latency_ms", "--offline"]),
    ],
)
def test_what_is_wrong_is_said_in_a_line(flags: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    ended = subprocess.run(
        [*COMMAND, "--port=0", *flags], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 2
    assert [word for word in words if word not in ended.stderr] == []
    assert "Traceback" not in ended.stderr


def test_a_port_in_use() -> None:
    with as_process("--offline") as url:
        port = url.rsplit(":", 1)[1]
        ended = subprocess.run(
            [*COMMAND, "--offline", f"--port={port}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert ended.returncode == 2
    assert "in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_no_secret_is_shown() -> None:
    flags = ["--judge_api_key=sk-own", '--tokens={"a": "sk-token"}', '--mounts={"m": {"judge_api_key": "sk-mounted"}}']
    ended = subprocess.run([*COMMAND, "--show_config", *flags], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "judge_critique_rounds" in ended.stdout
    assert "sk-" not in ended.stdout + ended.stderr


@contextmanager
def started(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [*COMMAND, "--port=0", *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered_before_the_end(number: signal.Signals) -> None:
    slow = Reply(text="[FEEDBACK] fine [SCORE] 5", delay_s=1.0)
    with serving(slow) as judge, started(f"--judge_base_url={judge.base_url}") as (process, url):
        asking = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import urllib.request; print(urllib.request.urlopen('{url}/v1/score', {BODY!r}).read())",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not judge.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        said, _ = asking.communicate(timeout=PATIENCE_S)
        assert process.wait(PATIENCE_S) == 0
    assert '"score":1.0' in said


def test_the_preset_can_be_tried_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    preset = ROOT / "configs" / "reward_server_rubric.yaml"
    with as_process(f"--config={preset}", "--offline", f"--judge_cache={tmp_path / 'cache.sqlite'}") as url:
        assert 0 <= post(url)["score"] <= 1
        assert 0 <= post(url, "/safety/v1/score")["score"] <= 1


def test_workers_share_the_port_and_end_together() -> None:
    with as_process("--offline", "--workers=2") as url:
        bodies = [json.dumps({"prompt": "Why?", "response": f"Because {n}."}).encode() for n in range(20)]
        scores = [post(url, body=body)["score"] for body in bodies]
        assert all(isinstance(score, float) for score in scores)
        metrics = urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S).read().decode()
        assert 'judgegym_requests_total{code="200",judge="",protocol="native"} 20.0' in metrics
