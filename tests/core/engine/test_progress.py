"""The numbers of the progress display: of the rows that have arrived, without their samples."""

from __future__ import annotations

import gc

import pytest

from judgegym.engine.loop import RunProgress
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import Disk
from judgegym.engine.terminal import ProgressDisplay
from judgegym.judges.core.judgment import Judgment, Status
from tests.core.environments.words import Said


def sample(number: int, score: float | None = 1.0) -> Sample[Said]:
    judgment = Judgment[Said](score, Status.OK if score is not None else Status.JUDGE_FAILED)
    headline = None if score is None else HeadlineTerm(score, 1.0)
    question = "a question of the progress"
    return Sample[Said](
        f"row-{number}", None, question, judgment=judgment, score=score, headline=headline
    )


async def test_progress_shows_the_rows_that_were_there_and_those_that_arrive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="judgegym")
    with ProgressDisplay("evaluate", "rows") as display:
        progress = RunProgress("right", lambda: "an endpoint is away", display)
        for number in range(4):
            progress.add(sample(number))
        with progress.show(Disk(), print, left=6):
            for number, score in enumerate([1.0, 0.0, None, 0.0], start=4):
                progress.add(sample(number, score))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("8 of 10 rows, ") and line.endswith(
        "right 0.714, 1 failed, an endpoint is away"
    )
    assert not [
        each
        for each in gc.get_objects()
        if isinstance(each, Sample) and "progress" in each.question
    ]
