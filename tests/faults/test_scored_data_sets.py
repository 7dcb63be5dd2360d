"""`judgegym score` while processes, endpoints, disks and files fail: FILE is that of a run that nothing disturbed.

The judge is deterministic, so FILE is compared byte for byte.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from judgegym.engine.runs import disk as disks
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.llm.retries import retry
from judgegym.llm.wire import JSON
from tests.command import Started, eventually, serving, write_lines
from tests.core.datasets.scoring import rated, read_rows, samples_of, score
from tests.core.engine.runs.full_disk import RefusingDisk
from tests.forking import ROOT
from tests.scripted import Reply, ScriptedEndpoint

COUNT, EQUAL, AT_ONCE = 80, 8, 4
ROWS = [
    {"id": n, "prompt": f"Question {n}", "response": f"Response {n}"} for n in range(COUNT - EQUAL)
]
ROWS += [{**ROWS[9 * n], "id": COUNT - EQUAL + n} for n in range(EQUAL)]
"""The last rows are equal to earlier ones for their judge, and are not asked about."""
DISTINCT = COUNT - EQUAL
SCRIPT = ROOT / "judgegym" / "__main__.py"


def by_text(response: str) -> int:
    """A rating that is a function of the response."""
    return zlib.crc32(response.encode()) % 5 + 1


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "data.jsonl", ROWS)


@pytest.fixture
def whole(tmp_path: Path, data: Path) -> Iterator[bytes]:
    """FILE of a run that nothing disturbed."""
    out = tmp_path / "whole.jsonl"
    with serving(rated(by_text)) as judge:
        assert score(data, "--out", out, url(judge)).code == 0
        assert len(judge.requests) == DISTINCT
    return out.read_bytes()


def url(judge: ScriptedEndpoint) -> str:
    return f"--judge_base_url={judge.base_url}"


FAULTS: Mapping[int, tuple[Callable[[str], Reply | str], str, str]] = {
    0: (
        lambda _: Reply(status=400, body={"error": {"message": "too long"}}),
        "judge_failed",
        "too long",
    ),
    1: (lambda _: Reply(status=500, body={"error": {"message": "oh no"}}), "judge_failed", "oh no"),
    2: (lambda _: "I cannot say: 4 or 5, [SCORE] none", "unparsable", "no verdict"),
    3: (lambda _: Reply(drop=True), "judge_failed", "disconnected"),
}
"""What becomes of a row by its number, modulo 20: the judge's answer for good, its status, and words of its error."""


def faulty(response: str) -> int | Reply:
    fault = FAULTS.get(int(response.split()[1]) % 20)
    if fault is None:
        return by_text(response)
    given = fault[0](response)
    return given if isinstance(given, Reply) else Reply(text=given)


def fault_of(row: Mapping[str, JSON]) -> int | None:
    number = int(str(row["response"]).split()[1]) % 20
    return number if number in FAULTS else None


@pytest.mark.slow
def test_a_fifth_that_fails_for_good_is_null_with_its_status_and_no_other_row_is_touched(
    tmp_path: Path, data: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry.random, "uniform", lambda least, most: 0.0)  # no pauses
    out, sharded = tmp_path / "scored.jsonl", tmp_path / "sharded.jsonl"
    with serving(rated(faulty)) as judge:
        words = (url(judge), "--judge_max_retries=1")
        ended = score(data, "--out", out, *words)
        assert ended.code == 1, ended.said
        for shard in range(1, 4):
            score(data, "--out", sharded, f"--shard={shard}/3", *words)
        score(data, "--out", sharded, "--merge=3", "--max_judge_error_rate=1")
    rows = read_rows(out)
    for row in rows:
        number = fault_of(row)
        if number is not None:
            _, status, said = FAULTS[number]
            assert (row["judge/score"], row["judge/status"], row["judge/label"]) == (
                None,
                status,
                None,
            )
            assert row["judge/detail"] is None
            assert said in str(row["judge/explanation"]).lower()
    failed = [row for row in rows if fault_of(row) is not None]
    assert re.search(rf"\b{len(failed)} of {COUNT} responses \w+ no score", ended.err)
    assert len(failed) >= COUNT // 5
    for line, row, good in zip(
        out.read_bytes().splitlines(), ROWS, whole.splitlines(), strict=True
    ):
        assert (line == good) is (fault_of(row) is None)
    assert sharded.read_bytes() == out.read_bytes()

    with serving(
        rated(by_text)
    ) as judge:  # it works again: what has failed is asked for, and nothing else
        assert score(data, "--out", out, url(judge), "--resume").code == 0
        assert len(judge.requests) == len({str(row["response"]) for row in failed})
    assert out.read_bytes() == whole


@pytest.mark.slow
def test_a_disk_that_is_full_in_mid_run_or_at_the_end_loses_nothing(
    tmp_path: Path, data: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "scored.jsonl"
    with serving(rated(by_text)) as judge:
        words = (data, "--out", out, url(judge), f"--judge_max_concurrency={AT_ONCE}")
        disk = RefusingDisk(room=30_000)
        with monkeypatch.context() as patch:
            disk.everywhere(patch, deadline_s=0.1)
            ended = score(*words)
        assert_one_message(ended.code, ended.said, "No space left on device")
        assert 0 < len(judge.requests) < DISTINCT

        replace = disks.os.replace

        def refuse(source: str | Path, target: str | Path) -> None:
            if Path(target) == out:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(disks.os, "replace", refuse)
            patch.setattr(disks, "DEADLINE_S", 0.1)
            ended = score(*words, "--resume")
        assert_one_message(ended.code, ended.said, "No space left on device")
        assert len(samples_of(out)) == COUNT
        assert sorted(path.name for path in tmp_path.glob("scored.jsonl*")) == []

        asked = len(judge.requests)
        assert asked <= DISTINCT + AT_ONCE
        (tmp_path / ".scored.jsonl.ab1_cd2e").write_text("half a file")
        assert score(*words, "--resume").code == 0
        assert len(judge.requests) == asked
    assert out.read_bytes() == whole
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_with_the_stand_in(
    tmp_path: Path, data: Path, number: signal.Signals
) -> None:
    words = [
        "score",
        str(data),
        f"--out={tmp_path / 'scored.jsonl'}",
        "--offline",
        '--faults={"latency_ms": 100}',
    ]
    with Started(str(SCRIPT), *words, "--judge_max_concurrency=1", cwd=tmp_path) as started:
        started.until((tmp_path / "scored.run" / "calls.jsonl").exists, "a call")
        stand_ins = (
            Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children")
            .read_text()
            .split()
        )
        assert len(stand_ins) == 1
        started.send(number)
        assert started.ended().code == (-number if number is signal.SIGKILL else 128 + number)
        eventually(lambda: not Path(f"/proc/{stand_ins[0]}").exists(), "no stand-in runs")


@pytest.mark.parametrize("flags", [(), ("--resume",)])
def test_a_file_that_no_run_has_written_is_not_overwritten(
    tmp_path: Path, data: Path, flags: Sequence[str]
) -> None:
    out = tmp_path / "scored.jsonl"
    out.write_text("precious")
    ended = score(data, "--out", out, "--offline", *flags)
    assert_one_message(ended.code, ended.said, "not overwritten")
    assert out.read_text() == "precious"
    assert not locate_run_directory(out).exists()


def assert_one_message(code: int, said: str, words: str) -> None:
    assert code == 2, said
    assert words in said
    assert "Traceback" not in said
