"""`--workers N`: what the processes share stays right, and what each has for itself."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest

from judgegym.server.operation import forget_worker
from tests.command import PATIENCE_S, eventually, serving
from tests.core.server.served import run, started
from tests.scripted import Json, Meeting

WORKERS, AT_ONCE = 2, 24


def post(url: str, response: str) -> Any:
    """A score, asked for on a connection of its own, so that any worker may take it."""
    body = json.dumps({"prompt": "Why?", "response": response}).encode()
    request = urllib.request.Request(
        f"{url}/v1/score", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def count(metrics: str, name: str) -> float:
    """A counter, over all its labels."""
    return sum(
        float(line.split()[-1]) for line in re.findall(rf"^{name}_total.*", metrics, re.MULTILINE)
    )


def scraped(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        return str(response.read().decode())


def responses(metrics: str) -> float:
    return count(metrics, "judgegym_responses") + count(metrics, "judgegym_equal_responses")


@pytest.mark.slow
def test_workers_share_one_judgment_cache_and_the_metrics(tmp_path: Path) -> None:
    """Two workers ask about the same response at the same time, and both have the verdict that is kept."""
    path, meeting = tmp_path / "cache.sqlite", Meeting(WORKERS)

    async def script(request: Json, number: int) -> str:
        if "the same" in request["messages"][-1]["content"]:
            await meeting.wait()
        return f"[FEEDBACK] number {number} [SCORE] {1 + number % 5}"

    others = [f"another one, {number}" for number in range(AT_ONCE // 2)] * 2
    with serving(script) as judge, ThreadPoolExecutor(AT_ONCE) as threads:
        flags = (
            f"--judge_base_url={judge.base_url}",
            f"--judge_cache={path}",
            f"--workers={WORKERS}",
        )
        with started(*flags) as (process, url):
            assert len(set(process.first_lines(WORKERS, PATIENCE_S))) == 1, "all listen at one URL"
            same = list(threads.map(lambda _: post(url, "the same"), range(AT_ONCE)))
            assert len(judge.requests) == WORKERS, "each worker joins its own calls"
            different = list(threads.map(lambda response: post(url, response), others))
            asked = len(judge.requests)
            again = list(threads.map(lambda response: post(url, response), ["the same", *others]))
            assert len(judge.requests) == asked, "every worker finds what another one has stored"
            posted = len(same) + len(different) + len(again)
            # The last response may be counted after it was sent.
            eventually(lambda: responses(scraped(url)) == posted, "all responses are counted")
            metrics = [scraped(url) for _ in range(2 * WORKERS)]
            process.send_signal(SIGTERM)
            process.communicate(PATIENCE_S)
            assert process.returncode == 0
    assert {(each["score"], each["explanation"]) for each in same} == {
        (again[0]["score"], again[0]["explanation"])
    }
    assert [each["explanation"] for each in different] == [
        each["explanation"] for each in again[1:]
    ]
    assert all(each["cached"] for each in again if not each["shared"])
    for each in metrics:
        assert count(each, "judgegym_requests") == responses(each) == posted
        assert "judgegym_in_flight 0.0" in each


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")


@pytest.mark.slow
@linux
def test_worker_that_is_killed_right_after_its_start_is_replaced() -> None:
    with started("--offline", f"--workers={WORKERS}") as (process, url):
        process.first_lines(WORKERS, PATIENCE_S)
        first = children(process.pid)
        for pid in first:
            os.kill(pid, SIGKILL)
        process.first_lines(2 * WORKERS, PATIENCE_S)
        assert isinstance(post(url, "Because.")["score"], float)
        assert len(children(process.pid)) == WORKERS
        assert not set(first) & set(children(process.pid))
        process.send_signal(SIGTERM)
        process.communicate(PATIENCE_S)
        assert process.returncode == 0


@linux
def test_workers_end_with_a_supervisor_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # it leaves its directories behind
    with started("--offline", f"--workers={WORKERS}") as (process, _):
        process.first_lines(WORKERS, PATIENCE_S)
        pids = children(process.pid)
        process.kill()
        process.communicate(PATIENCE_S)  # their output ends
    eventually(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the workers are gone"
    )


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_server() -> None:
    """Only a worker finds out that the cache is no database."""
    ended = run(
        "--offline", f"--workers={WORKERS}", f"--judge_cache={Path(__file__).parent}", "--port=0"
    )
    assert ended.code == 2
    assert "judge_cache" in ended.err
    assert "Traceback" not in ended.err


def test_dead_worker_is_left_out_of_what_is_in_flight_and_its_counters_stay(tmp_path: Path) -> None:
    names = ["gauge_livesum_7.db", "gauge_livesum_8.db", "counter_7.db"]
    for name in names:
        (tmp_path / name).touch()
    forget_worker(7, str(tmp_path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names[1:])
