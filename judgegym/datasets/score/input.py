"""The rows of `judgegym score`: as they are judged, and as they are written.

Guarantee: the two differ only with `--rescore`, by the columns of the earlier judge, which are not
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from judgegym.data.rows import (
    DataSet,
    DatasetRead,
    bad_line_message,
    collect_datasets_read,
    load_rows,
)
from judgegym.datasets.files.columns import RESPONSE, SAMPLED, AddedColumns, judged_values
from judgegym.datasets.files.shards import group_starts
from judgegym.datasets.files.writer import drop_judge_columns
from judgegym.datasets.rows.reader import ReadEarlier
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import read_earlier_responses
from judgegym.datasets.score.saved import SavedResponses
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.judges.core.judgment import NamedVerdict
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun, find_scoring_run

SKIP_HINT = (
    "(--on_bad_row=skip judges the others, and lists what cannot be judged in a file beside FILE)"
)
"""Tells how to judge the good rows, for messages about bad ones."""


@dataclass(frozen=True, slots=True)
class ScoreInput:
    """The input of a run.

    Attributes:
        rows: the rows with all their columns.
        output_rows: the same rows as they are written, without the added columns.
        datasets: the data sets that were read.
        earlier: reads the responses of a row that an earlier run has sampled.
        answers_run: with `--rescore`, the complete run beside the file that judged the rows before.
    """

    rows: DataSet
    output_rows: DataSet
    datasets: Sequence[DatasetRead]
    earlier: ReadEarlier | None = None
    answers_run: SavedRun | None = None

    def group_starts(self, settings: ScoreSettings) -> Sequence[int] | None:
        """Return the first row of each group of `--group_by`; `None` without groups.

        Raises:
            DataError: the rows of a group are not consecutive.
        """
        if settings.group_by is None:
            return None
        return group_starts(self.rows, settings.group_by)


def read_input(settings: ScoreSettings, data: str) -> ScoreInput:
    """Read the rows of a run.

    Raises:
        DataError: the data cannot be loaded, or `--rescore` is set and it is not a scored file.
        SettingsError: a column of responses is named, but the file has a policy's responses.
        RunDirectoryError: the run beside a file that is judged again is damaged.
    """
    with collect_datasets_read() as datasets:
        rows = load_rows(data, split=settings.split, skips=True)
    if rows.bad_lines and settings.on_bad_row == "fail":
        more = ""
        if len(rows.bad_lines) > 1:
            more = f"\n{len(rows.bad_lines):,} lines are no JSON objects"
        raise DataError(f"{bad_line_message(rows.bad_lines[0])}{more}\n{SKIP_HINT}")
    if not settings.rescore:
        return ScoreInput(rows, rows, tuple(datasets))
    output_rows = drop_judge_columns(rows)
    is_sampled = RESPONSE in rows[0].values
    if is_sampled and settings.response_column not in (None, RESPONSE):
        raise SettingsError(
            f"--response_column: with --rescore, the responses of {data} are those of its policy, "
            f"in {RESPONSE}; leave the setting out"
        )
    run_path = find_scoring_run(Path(data).expanduser())
    run = None if run_path is None else SavedRun.open(run_path)
    answers_run = run if run is not None and run.is_complete else None
    return ScoreInput(
        rows,
        output_rows,
        tuple(datasets),
        read_earlier_responses if is_sampled else None,
        answers_run,
    )


def iter_added_columns(
    tasks: ScoreTasks, saved: SavedResponses, columns: AddedColumns
) -> Iterator[Mapping[str, JSON]]:
    """Yield the added values of each row, in the order of the rows; lists for several responses.

    The lines are read row by row.

    Raises:
        RunDirectoryError: a line has disappeared.
    """
    for row in tasks.numbers:
        bad = tasks.bad.get(row)
        if bad is not None:
            yield columns.make_bad_row_values(bad.reason)
            continue
        yield columns.make_row_values(
            [
                _sample_values(saved.read_line(place), columns)
                for place in tasks.response_index.find_row_positions(row)
            ]
        )


def _sample_values(line: bytes, columns: AddedColumns) -> Mapping[str, JSON]:
    sample = orjson.loads(line)
    detail = sample.get("detail") or {
        "explanation": sample.get("error")
    }  # the policy failed, so there is no judgment
    judged = judged_values(
        sample["score"],
        sample["status"],
        sample.get("label"),
        detail["explanation"],
        detail.get("components", {}),
        verdicts=[NamedVerdict(**verdict) for verdict in detail.get("verdicts", ())],
        columns=columns.verdicts,
    )
    sampled = (
        sample.get("model_answer"),
        sample.get("thinking") or None,
        sample.get("finish_reason"),
    )
    return {**dict(zip(SAMPLED, sampled, strict=True)), **judged}
