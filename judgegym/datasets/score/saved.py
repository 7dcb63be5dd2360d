"""The judged responses of a run on disk, by their positions in the data set.

A judged response is a line in the format of an evaluation's samples, so that all tools read it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from judgegym.datasets.rows.task import JudgedResponse, ScoreTask
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.gold import GoldColumn
from judgegym.datasets.score.settings import OUT, ScoreSettings
from judgegym.engine.loop import RowEnd
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import FINISHED, Sample, SampleReader, SampleRun, read_sample
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import (
    FAILURES,
    SAMPLES,
    RunDirectory,
    locate_run_directory,
    parse_response_uid,
)
from judgegym.engine.runs.lines import RawLine
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.core.judgment import Judgment, NamedVerdict, Status
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class ScoreDetail:
    """The details of a judgment beside its score.

    Attributes:
        explanation: the judge's reasons.
        components: numbers from which the score is computed, such as `raw` on the judge's own
            scale.
        verdicts: the verdicts on aspects or criteria, also if some are missing and there is no
            score.
        tags: for a checklist, the score of each tag.
    """

    explanation: str
    components: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[NamedVerdict, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)


SavedResponses: TypeAlias = "SavedRows[Any, ScoreDetail]"
"""The lines of a run, by the positions of the responses."""


def open_run(settings: ScoreSettings, out: Path) -> RunDirectory:
    """Open the run directory of an output.

    Raises:
        RunDirectoryError: the run cannot be resumed, or another process is using it.
    """
    return RunDirectory(
        locate_run_directory(out),
        config=settings.public(),
        matters=settings.matters(),
        resume=settings.resume,
        defaults=settings.defaults(),
        settings=settings,
        path_setting=OUT,
    )


def open_saved(tasks: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """Return the responses of a run, without a line yet."""
    return SavedRows(range(tasks.response_index.count), run, SampleReader(ScoreDetail))


def make_samples(
    task: ScoreTask,
    digest: str,
    judged: Sequence[JudgedResponse],
    seconds: float,
    gold: GoldColumn | None = None,
) -> Iterator[Sample[ScoreDetail]]:
    """Yield the samples of a task's responses, in their order.

    Args:
        task: the judged task.
        digest: its key, in hexadecimal digits.
        judged: its responses with their judgments.
        seconds: how long the task took, recorded with the first response.
        gold: reads the gold labels of the rows; `None` without any.
    """
    judge_task = task.judge_task
    fields = {
        "reference": judge_task.reference,
        "rubric": judge_task.rubric,
        "baseline": judge_task.baseline,
        "context": judge_task.context,
    }
    if judge_task.levels:
        fields["levels"] = "\n".join(
            f"Score {level}: {description}" for level, description in judge_task.levels
        )
    if judge_task.aspects is not None:
        fields["aspects"] = "\n".join(
            f"{aspect.name}: {aspect.definition}" for aspect in judge_task.aspects
        )
    if judge_task.criteria is not None:
        fields["criteria"] = "\n".join(
            f"[{criterion.points:g}] {criterion.name}: {criterion.text}"
            for criterion in judge_task.criteria
        )
    texts = {title: text for title, text in fields.items() if text is not None}
    for position, (uid, response) in enumerate(zip(task.uids, judged, strict=True)):
        completion, result = response.completion, response.judgment
        if task.several:
            row, number, category = task.rows[0], position, task.category[0]
        else:
            row, number, category = task.rows[position], 0, task.category[position]
        policy_calls = () if response.policy_call is None else (response.policy_call,)
        headline = None
        if completion is not None and not result.is_failed:
            # An empty response counts as 0; a response whose judge failed is left out of the mean.
            headline = HeadlineTerm(result.score or 0.0, 1.0)
        yield Sample(
            uid=uid,
            category=category,
            question=judge_task.prompt,
            completions=() if completion is None else (completion,),
            judgment=None if completion is None else _make_judgment(result),
            score=result.score,
            run=SampleRun(
                seconds if position == 0 else 0.0,
                policy_calls,
                None if completion is None else result.runs,
            ),
            policy_error=result.explanation if completion is None else None,
            task_digest=digest,
            headline=headline,
            texts=texts,
            gold=() if gold is None else gold.labels(row, number, result),
        )


def _make_judgment(result: ResponseJudgment) -> Judgment[ScoreDetail]:
    status = Status(result.status)
    return Judgment(
        result.score,
        status,
        result.label,
        "" if status is Status.OK else result.explanation,
        detail=ScoreDetail(result.explanation, result.components, result.verdicts, result.tags),
        suspects=result.injection_suspects,
    )


def make_row_end(task: ScoreTask, judged: Sequence[JudgedResponse]) -> RowEnd:
    """Return how a task ended.

    A policy's failure in an earlier run tells nothing about this run's endpoints, nor does a rule
    that cannot decide.
    """
    results = [response.judgment for response in judged]
    failed = [result.is_failed for result in results]
    was_asked = not task.earlier or any(response.result is None for response in task.earlier)
    is_silent = all(
        result.status == Status.UNPARSABLE and not result.judge_calls for result in results
    )
    return RowEnd(
        not any(failed),
        results[0].explanation if all(failed) else None,
        was_asked and not is_silent,
    )


def read_response(line: RawLine) -> Sample[JSON]:
    """Read a line of a scored data set.

    Raises:
        ValueError: the line is something else.
    """
    sample = read_sample(line)
    split_response_uid(sample.uid)
    return sample


def find_position(sample: Sample[JSON], tasks: ScoreTasks) -> int | None:
    """Return the position of a sample's response; `None` if its row is gone or has changed."""
    position = tasks.response_index.find(*split_response_uid(sample.uid))
    if position is not None and _is_current(tasks, position, sample):
        return position
    return None


def _is_current(tasks: ScoreTasks, position: int, sample: Sample[JSON]) -> bool:
    """Return whether a sample is of the response at a position, as it is now."""
    if sample.task_digest != tasks.key(tasks.response_index.task(position)).hex():
        return False
    row, _ = tasks.response_index.row(position)
    if (
        tasks.are_groups
        and sample.completions[0].answer != tasks.reader.task(row).judge_task.response
    ):
        return False  # it belongs to another member of an identical group
    return sample.category == tasks.reader.category(row)


def read_ended(tasks: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """Read the responses of a run directory in which each has a line.

    Raises:
        RunDirectoryError: a file cannot be read, or a line is missing.
    """
    saved = open_saved(tasks, run)
    for name in (FAILURES, SAMPLES):
        for line, sample in read_lines(run.path / name, read_response):
            position = tasks.response_index.find(*split_response_uid(sample.uid))
            if position is None:
                raise line.error("not of a response of this data set")
            saved.record_line(position, line, sample.status, is_complete=sample.status in FINISHED)
    if missing := saved.missing:
        row, _ = tasks.response_index.row(missing[0])
        raise RunDirectoryError(
            f"{run.path}: {len(missing)} responses have no line, such as one of row {row + 1}"
        )
    return saved


def split_response_uid(uid: str) -> tuple[int, int | None]:
    """Return the row of a response, and the response's number if the row has several.

    Raises:
        ValueError: it is the id of something else.
    """
    row_and_number = parse_response_uid(uid)
    if row_and_number is None:
        raise ValueError(
            f"expected a judged response of a data set, such as row-1; found the uid {uid!r}"
        )
    return row_and_number


def list_missing_tasks(tasks: ScoreTasks, positions: Iterable[int]) -> array[int]:
    """Return the tasks to judge: the first of identical ones, if any of them lacks a line.

    Args:
        tasks: all tasks.
        positions: the positions of the responses without a line.
    """
    missing = bytearray(len(tasks))
    for position in positions:
        missing[tasks.first_equal[tasks.response_index.task(position)]] = 1
    return array("q", (number for number, is_missing in enumerate(missing) if is_missing))
