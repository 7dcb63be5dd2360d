"""Judging of rows that a command derives from a data set, with the code of `judgegym score`.

The rows are written to a file in the command's folder and judged as `judgegym score` judges them:
with its run directory, ledger, `--resume`, `--plan`, budgets, `--offline` and messages. Judgments
are read back by row id.

Guarantees: identical rows share one judgment; a row with another `repeat` is judged by new calls;
the plan of the rows is that of `judgegym score --plan`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.clients import resume_command
from judgegym.datasets.score.command import add_data_flag, judge_data
from judgegym.datasets.score.input import SKIP_HINT, read_input
from judgegym.datasets.score.plan import make_plan
from judgegym.datasets.score.saved import ScoreDetail, split_response_uid
from judgegym.datasets.score.settings import OUT, RowsRunSettings, ScoreSettings
from judgegym.engine.command import interruptible, settings_to_run
from judgegym.engine.metrics import Metrics
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.lines import Plan
from judgegym.engine.plan.planning import open_dry_judge
from judgegym.engine.records import Sample, SampleReader
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import FAILURES, SAMPLES, check_unused, locate_run_directory
from judgegym.engine.runs.disk import write_atomic
from judgegym.environments.command_line.offline import expand_replicas
from judgegym.judges.config.reading.help import render_help
from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.scorers.registry import TASK_FIELDS
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm import wire
from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, Message
from judgegym.offline.answers import load_known_prompts
from judgegym.reports.results.run import is_run_directory

ROWS, JUDGED = "rows.jsonl", "judged.jsonl"
"""File of derived rows, and the scored file next to their run directory (`judged.run`)."""
_TASK = {f"{name}_column": name for name in ("prompt", *TASK_FIELDS, "repeat")} | {
    "response_column": "responses"
}


class RowsSettings(DatasetJudgeSettings, ColumnSettings, RowsRunSettings):
    """Settings of a command that judges derived rows; each command adds its own."""


DerivedRows: TypeAlias = Mapping[str, JudgeTask]
"""Tasks of the rows to judge, by id. A task's `repeat` makes it independent of identical tasks."""
SettingsT = TypeVar("SettingsT", bound=RowsSettings)


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The judgments of all derived rows.

    Attributes:
        by_uid: each row's judged responses, in their order.
        run: the run directory.
        metrics: the run's metrics, with calls, tokens and cost (`eval/judge_calls`, …).
        judge: the judge's name in results.
        problem: why the command must fail: too many responses have no score.
        again: the command that judges these responses again.
    """

    by_uid: Mapping[str, tuple[Sample[ScoreDetail], ...]]
    run: Path
    metrics: Metrics
    judge: str
    problem: str | None
    again: str


def load_command_settings(
    settings: type[SettingsT],
    words: Sequence[str],
    prog: str,
    *,
    about: str,
    group: str,
    most_used: Sequence[str],
) -> LoadedSettings[SettingsT] | None:
    """Load the settings of a command that judges rows into a folder.

    `None` if the user asked for help only.

    Args:
        settings: the command's settings class.
        words: the command line without the program's name.
        prog: the command as the user typed it.
        about: the command's description, for help.
        group: the heading of its own settings, for help.
        most_used: the settings that help lists first.

    Raises:
        SettingsError: a setting is unknown or wrong.
    """
    groups = {"data": "data", group: group, "judge": "judge (the model that scores)", "run": "run"}
    usage = f"{prog} DATA --judge KIND --out FOLDER"
    page = partial(
        render_help,
        settings,
        words=words,
        usage=usage,
        about=about,
        groups=groups,
        most_used=most_used,
    )
    return settings_to_run(
        words,
        page,
        partial(load, settings, add_data_flag(words), prog=prog, reshape=expand_replicas),
    )


async def list_prompts(settings: AnyJudgeSettings, task: JudgeTask) -> list[Sequence[Message]]:
    """Return the prompts that a judge would send for a checked task, in order; nothing is called.

    Raises:
        SettingsError: the judge's settings are wrong.
    """
    dry = DryRun(formats=load_known_prompts(settings))
    prompts: list[Sequence[Message]] = []
    dry.watch = prompts.append
    judge = open_dry_judge(settings, dry)
    if settings.asks_endpoint:
        await judge_responses(judge, task)
    return prompts


def read_tasks(settings: RowsSettings, *, with_responses: bool = True) -> ScoreTasks:
    """Load the tasks of the user's rows; each row is read and checked.

    Args:
        settings: settings of data and judge.
        with_responses: whether rows have responses; if not, tasks have prompts and the fields for
            the judge only.

    Raises:
        DataError: the data cannot be loaded, or a row cannot be judged and `on_bad_row` is `fail`.
    """
    with interruptible(is_profiled=settings.profile is not None):
        scored = score_settings(settings, data=settings.data or "")
        data_input = read_input(scored, settings.data or "")
        count = len(data_input.rows)
        if settings.limit is not None:
            count = min(settings.limit, count)
        check = open_dry_judge(scored).check
        tasks = ScoreTasks(
            data_input.rows, scored, check, range(count), sampled=None if with_responses else 1
        )
        if settings.on_bad_row == "fail" or len(tasks.bad) == count:
            tasks.require_all(f"\n{SKIP_HINT}")
    return tasks


def score_settings(settings: RowsSettings, **changed: object) -> ScoreSettings:
    """Return settings of `judgegym score` that judge like `settings`, with changes."""
    values = {**{name: getattr(settings, name) for name in type(settings).model_fields}, **changed}
    settings_type = ScoreSettings.select_class(values)
    shared = {name: value for name, value in values.items() if name in settings_type.model_fields}
    return settings_type.model_construct(
        {*settings.model_fields_set, *changed} & {*shared}, **shared
    )


def resolve_folder(
    settings: RowsSettings, out: Path | None, *, command: str, data: str
) -> Path | None:
    """Return the folder that a command writes to; `None` for a plan without one.

    Args:
        settings: the command's settings.
        out: the value of `--out`.
        command: the command's name, for messages.
        data: the data that it reads, for messages.

    Raises:
        SettingsError: the data or the folder is not set, or the folder is a file or a run
            directory.
    """
    if settings.data is None:
        raise SettingsError(f"expected {data}: judgegym {command} DATA --judge KIND --out FOLDER")
    if out is None and (settings.resume or not settings.plan):
        raise SettingsError(f"--out: expected the folder to write to, such as --out {command}ed")
    if out is None:
        return None
    folder = out.expanduser()
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"--out: {folder} is a file; expected a folder")
    if is_run_directory(folder):
        raise SettingsError(
            f"--out: {folder} is the run directory of another command; expected another folder"
        )
    return folder


def check_folder(folder: Path, *, resume: bool) -> None:
    """Check that a command may judge into a folder.

    Raises:
        RunDirectoryError: it holds a run, and `--resume` is not set.
    """
    if not resume:
        check_unused(locate_run_directory(folder / JUDGED), OUT)


async def plan_rows(
    loaded: LoadedSettings[SettingsT],
    rows: DerivedRows,
    folder: Path | None,
    dry: DryRun | None = None,
) -> Plan:
    """Plan the calls that judge the rows; no endpoint is called, and nothing is written.

    Args:
        loaded: the settings and their sources; with `resume`, rows that the run in the folder has
            are subtracted.
        rows: the rows.
        folder: the command's folder; `None` for a new run.
        dry: the dry run shared by several such plans; by default the plan has its own.
    """
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / ROWS
        path.write_bytes(_dump_rows(rows))
        settings, out = loaded.settings, path.with_name(JUDGED)
        scored = LoadedSettings(_make_derived_settings(settings, path, out), loaded.origins)
        earlier = None
        if folder is not None and settings.resume:
            earlier = locate_run_directory(folder / JUDGED)
        return await make_plan(scored, str(path), out, run=earlier, dry=dry)


async def judge_rows(
    loaded: LoadedSettings[SettingsT],
    rows: DerivedRows,
    folder: Path,
    command: Sequence[str],
    budget: Budget | None = None,
) -> JudgedRows:
    """Judge the rows that an earlier run has not judged yet.

    Args:
        loaded: the settings and their sources.
        rows: the rows.
        folder: the command's folder, created if missing.
        command: the command as the user typed it, such as `judgegym attack`.
        budget: the budget shared by several such runs; by default the run has its own.

    Returns:
        The judgments.

    Raises:
        UserError: the judge's settings are wrong, the run cannot be resumed, or the disk stays
            full.
        RunStop: the endpoint is unreachable, or the budget is spent; the message says what is kept,
            and how to resume.
    """
    check_folder(folder, resume=loaded.settings.resume)
    path, out = folder / ROWS, folder / JUDGED
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(write_atomic, path, _dump_rows(rows))
    except OSError as error:
        raise SettingsError(
            f"--out: {error.filename or path} cannot be written: {error.strerror}"
        ) from error
    settings = _make_derived_settings(loaded.settings, path, out)
    derived = LoadedSettings(settings, loaded.origins)
    result = await judge_data(
        command[1], derived, str(path), out, command, budget or settings.budget()
    )
    samples = _read_samples(rows, result.path)
    again = resume_command(settings, command)
    return JudgedRows(
        samples, result.path, result.metrics, settings.judged_by, result.problem, again
    )


def _make_derived_settings(settings: RowsSettings, data: Path, out: Path) -> ScoreSettings:
    """Return the settings that judge a file of derived rows."""
    unset = dict.fromkeys(("category_column", "group_by", "gold_column", "limit"))
    return score_settings(
        settings, data=str(data), out=out, on_bad_row="fail", split="train", **unset, **_TASK
    )


def _dump_rows(rows: DerivedRows) -> bytes:
    return b"".join(
        wire.dumps({"uid": uid, **_task_columns(task)}) + b"\n" for uid, task in rows.items()
    )


def _task_columns(task: JudgeTask) -> dict[str, JSON]:
    rubric: JSON = task.rubric
    if task.levels:
        rubric = {
            "criteria": task.rubric or "",
            **{f"score{level}_description": text for level, text in task.levels},
        }
    lists = {"aspects": task.aspects, "criteria": task.criteria}
    dumped = {
        name: None if items is None else [item.model_dump(mode="json") for item in items]
        for name, items in lists.items()
    }
    others = {
        name: getattr(task, name)
        for name in ("prompt", "reference", "baseline", "context", "repeat")
    }
    return {"responses": list(task.responses), "rubric": rubric, **others, **dumped}


def _read_samples(rows: DerivedRows, run: Path) -> dict[str, tuple[Sample[ScoreDetail], ...]]:
    """Return each row's judged responses, from the lines of a run."""
    by_position = [dict[int, Sample[ScoreDetail]]() for _ in rows]
    reader = SampleReader(ScoreDetail)
    for name in (SAMPLES, FAILURES):
        for _, sample in read_lines(run / name, lambda line: reader.read(line.data)):
            row, place = split_response_uid(sample.uid)
            by_position[row][place or 0] = sample
    return {
        uid: tuple(samples[place] for place in sorted(samples))
        for uid, samples in zip(rows, by_position, strict=True)
    }
