"""The rows of a run on disk: read back in the order of the dataset, as often as they are asked for."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.records import SampleReader
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.disk import Disk
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.arena import ArenaDetail
from judgegym.llm.errors import RunDirectoryError
from tests.core.engine.runs.full_disk import RefusingDisk
from tests.core.engine.samples_of import sample


@dataclass(frozen=True)
class Row:
    uid: str
    category: str | None = None
    question: str = "?"


ROWS = [Row(f"row-{number}") for number in range(6)]
STATUSES = ["ok", "judge_failed", "ok", "policy_failed", "invalid_completion", "judge_failed"]
ARRIVING = [4, 1, 5, 0, 3, 2]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    directory = RunDirectory(tmp_path / "run", config={}, matters={}, resume=False)
    yield directory
    directory.close()


def filled(run: RunDirectory, arriving: list[int] = ARRIVING) -> SavedRows[Row, Any]:
    saved = SavedRows(ROWS, run, SampleReader(ArenaDetail))
    for number in arriving:
        status = STATUSES[number]
        saved.append(number, sample(f"row-{number}", status), is_complete=status == "ok")
    return saved


def on_disk(run: RunDirectory, name: str) -> list[str]:
    return [json.loads(line)["uid"] for line in (run.path / name).open("rb")]


@pytest.mark.parametrize("name", ["samples.jsonl", "failures.jsonl"])
async def test_lines_that_count_no_longer_are_left_out(name: str, run: RunDirectory) -> None:
    run.writer(name).append(b'{"uid":"of an earlier run"}\n')
    saved = SavedRows(ROWS[:2], run, SampleReader(ArenaDetail))
    saved.set_end(name, len(b'{"uid":"of an earlier run"}\n'))
    for number, status in enumerate(["ok", "unparsable"]):
        saved.append(number, sample(f"row-{number}", status), is_complete=True)
    await saved.sort()
    assert [on_disk(run, each) for each in ("samples.jsonl", "failures.jsonl")] == [
        ["row-0"],
        ["row-1"],
    ]
    assert [sample.uid for _, sample in saved.all_rows()] == ["row-0", "row-1"]


async def test_places_are_right_though_the_disk_refused_the_lines(tmp_path: Path) -> None:
    refusing = RefusingDisk(room=100)
    disk = Disk(retry_s=0.01, open_file=refusing.open)
    run = RunDirectory(tmp_path / "run", config={}, matters={}, resume=False, disk=disk)
    saved = filled(run)
    sorting = asyncio.create_task(saved.sort())
    await asyncio.sleep(0.05)
    assert not sorting.done()
    refusing.room = 1 << 20
    await asyncio.wait_for(sorting, 60)
    assert [sample.uid for _, sample in saved.all_rows()] == [row.uid for row in ROWS]
    run.close()


def test_line_that_is_no_longer_there_is_an_error_that_names_its_place(run: RunDirectory) -> None:
    saved = filled(run)
    (run.path / "failures.jsonl").write_bytes(b"")
    with pytest.raises(
        RunDirectoryError, match=rf"{re.escape(str(run.path / 'failures.jsonl'))}, at byte \d+: "
    ):
        saved.read_sample(5)
