import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.loop import NothingSucceeds, RowEnd, judge_rows
from judgegym.engine.records import Sample, SampleReader, SampleRun
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.arena import ArenaDetail
from judgegym.judges.core.judgment import CallRun
from tests.core.engine.samples_of import sample


@dataclass(frozen=True)
class Row:
    uid: str
    category: str | None = None

    @property
    def question(self) -> str:
        return f"Question of {self.uid}"


Finish = Callable[[Row], Awaitable[Sample[Any]]]
ROWS = [Row(f"row-{number}") for number in range(30)]
EARLIER = Row("earlier")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    directory = RunDirectory(tmp_path / "run", config={}, matters={}, resume=False)
    yield directory
    directory.close()


def on_disk(run: RunDirectory, name: str = "samples.jsonl") -> list[str]:
    path = run.path / name
    return [json.loads(line)["uid"] for line in path.open("rb")] if path.exists() else []


async def finish_all(
    run: RunDirectory,
    finish: Finish,
    rows: list[Row] = ROWS,
    *,
    in_flight: int = 8,
    before: bool = False,
    arrived: Callable[[Row, Sample[Any]], None] | None = None,
) -> tuple[SavedRows[Row, Any], list[str]]:
    """The rows on disk, and the ids in the order of their arrival."""
    saved = SavedRows([EARLIER, *rows] if before else rows, run, SampleReader(ArenaDetail))
    if before:
        saved.append(0, sample(EARLIER.uid), is_complete=True)
    told: list[str] = []

    def tell(row: Row, arriving: Sample[Any]) -> None:
        told.append(arriving.uid)
        if arrived is not None:
            arrived(row, arriving)

    def end_of(row: Row, ended: Sample[Any]) -> RowEnd:
        was_asked = ended.policy_error is None or bool(ended.run.policy_calls)
        return RowEnd(ended.finished, ended.error, was_asked)

    def record(number: int, row: Row, ended: Sample[Any], seconds: float) -> None:
        saved.append(number, ended, is_complete=ended.finished)
        tell(row, ended)

    missing = saved.missing
    await judge_rows(
        saved.tasks,
        missing,
        finish,
        end_of,
        record,
        CallLedger(run, finished=(), keep_texts=True),
        in_flight=in_flight,
        is_first_run=len(missing) == len(saved),
    )
    return saved, told


def uids(saved: SavedRows[Row, Any]) -> list[str]:
    return [sample.uid for _, sample in saved.all_rows()]


@pytest.mark.parametrize("in_flight", [1, 7, 30, 100])
async def test_as_many_rows_as_allowed_are_under_way_and_never_more(
    run: RunDirectory, in_flight: int
) -> None:
    under_way, peak = 0, 0
    full = asyncio.Event()

    async def finish(task: Row) -> Sample[Any]:
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        if under_way == min(in_flight, len(ROWS)):
            full.set()
        await full.wait()  # would never end if fewer were begun
        under_way -= 1
        return sample(task.uid)

    await finish_all(run, finish, in_flight=in_flight)
    assert peak == min(in_flight, len(ROWS))


@pytest.mark.parametrize(
    ("rows", "status", "tried"),
    [
        (30, "judge_failed", 10),
        (30, "policy_failed", 10),
        (30, "unparsable", 10),
        (3, "judge_failed", 3),
    ],
)
async def test_it_is_given_up_when_nothing_succeeds(
    run: RunDirectory, rows: int, status: str, tried: int
) -> None:
    begun = 0

    async def fails(task: Row) -> Sample[Any]:
        nonlocal begun
        begun += 1
        return sample(task.uid, status, run=SampleRun(1.0, (CallRun(),)))

    with pytest.raises(NothingSucceeds, match="row-"):
        await finish_all(run, fails, ROWS[:rows], in_flight=1)
    assert begun == tried
    assert len(on_disk(run, "failures.jsonl")) == tried, "what there is, is on disk"


async def test_failures_of_a_policy_that_was_not_asked_are_no_reason_to_give_up(
    run: RunDirectory,
) -> None:
    """Completions of another run are judged again, and their policy failed on the first rows."""

    async def failed_then(task: Row) -> Sample[Any]:
        return sample(task.uid, "ok" if task in ROWS[20:] else "policy_failed", run=SampleRun(0.0))

    saved, _ = await finish_all(run, failed_then, in_flight=1)
    assert saved.outcomes().statuses == {"policy_failed": 20, "ok": 10}


@pytest.mark.parametrize("good", [0, 4, 9])
async def test_one_success_among_the_first_ten_is_reason_enough_to_go_on(
    run: RunDirectory, good: int
) -> None:
    async def one_good(task: Row) -> Sample[Any]:
        return sample(task.uid, "ok" if task is ROWS[good] else "unparsable")

    saved, _ = await finish_all(run, one_good, in_flight=1)
    assert saved.outcomes().finished == 1


async def test_a_run_that_had_finished_rows_is_not_given_up(run: RunDirectory) -> None:
    async def fails(task: Row) -> Sample[Any]:
        return sample(task.uid, "judge_failed")

    saved, told = await finish_all(run, fails, before=True)
    assert uids(saved) == ["earlier", *(row.uid for row in ROWS)]
    assert len(told) == 30


async def test_an_error_of_our_own_ends_the_others_and_is_not_swallowed(run: RunDirectory) -> None:
    hanging = 0

    async def breaks(task: Row) -> Sample[Any]:
        nonlocal hanging
        if task is ROWS[3]:
            raise ZeroDivisionError("a bug")
        hanging += 1
        try:
            await asyncio.Event().wait()
        finally:
            hanging -= 1
        return sample(task.uid)

    tasks_before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await finish_all(run, breaks)
    assert hanging == 0
    assert asyncio.all_tasks() == tasks_before
