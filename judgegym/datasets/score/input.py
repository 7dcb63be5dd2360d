"""The rows of a run: as they are judged, and as the output has them.

Guarantee: with `--rescore` these differ by the columns of the earlier judge alone, which the output has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.data.provenance import DatasetRead, recording
from judgegym.data.rows import DataSet, bad_line_words, load_rows
from judgegym.datasets.files.columns import RESPONSE
from judgegym.datasets.files.writer import without_judge
from judgegym.datasets.rows.reader import ReadEarlier
from judgegym.datasets.sample.sampling import earlier_responses
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun, run_of_file

SKIP_HINT = "(--on_bad_row=skip judges the others, and lists what cannot be judged in a file beside FILE)"
"""How the good rows are judged, for messages about bad ones."""


@dataclass(frozen=True, slots=True)
class AnswersOf:
    """The run that judged the same responses before.

    Attributes:
        run: its directory, complete.
    """

    run: SavedRun

    @property
    def subject(self) -> str:
        """What was judged, as that run calls it."""
        return self.run.policy

    def to_json(self) -> dict[str, JSON]:
        """What `metrics.json` says of it. Its data, and how many responses it asked for, are this run's, too."""
        general, asked = self.run.general, "responses_per_prompt"
        sampled = wire.lookup(general, f"protocol.{asked}")
        return {
            "path": str(self.run.path),
            "environment": self.run.environment,
            "policy": self.run.policy,
            "judge": self.run.judge,
            "date": self.run.date.isoformat(timespec="seconds"),
            asked: wire.lookup(general, f"answers_of.{asked}") if sampled is None else sampled,
            "datasets": wire.lookup(general, "answers_of.datasets", general.get("datasets")),
        }


@dataclass(frozen=True, slots=True)
class ScoreInput:
    """What a run reads.

    Attributes:
        rows: the rows with all their columns.
        own: the same rows as the output has them, before the columns that are added.
        datasets: what was read.
        earlier: reads the responses of a row, where an earlier run has sampled them.
        answers_of: the run that judged the rows before, if `--rescore` has found it beside them.
    """

    rows: DataSet
    own: DataSet
    datasets: Sequence[DatasetRead]
    earlier: ReadEarlier | None = None
    answers_of: AnswersOf | None = None


def read_input(settings: ScoreSettings, data: str) -> ScoreInput:
    """Read the rows of a run.

    Raises:
        DataError: the data cannot be loaded, or are no scored file that could be judged again.
        SettingsError: a column of responses is named, and the file has those of a policy.
        RunDirectoryError: the run beside a file that is judged again is damaged.
    """
    with recording() as read:
        rows = load_rows(data, split=settings.split, skips=True)
    if rows.bad_lines and settings.on_bad_row == "fail":
        more = f"\n{len(rows.bad_lines):,} lines are no JSON objects" if len(rows.bad_lines) > 1 else ""
        raise DataError(f"{bad_line_words(rows.bad_lines[0])}{more}\n{SKIP_HINT}")
    if not settings.rescore:
        return ScoreInput(rows, rows, tuple(read))
    own = without_judge(rows)
    is_sampled = RESPONSE in rows[0].values
    if is_sampled and settings.response_column not in (None, RESPONSE):
        raise SettingsError(
            f"--response_column: with --rescore, the responses of {data} are those of its policy, in {RESPONSE}; leave "
            "the setting out"
        )
    return ScoreInput(rows, own, tuple(read), earlier_responses if is_sampled else None, _answers_of(data))


def _answers_of(data: str) -> AnswersOf | None:
    beside = run_of_file(Path(data).expanduser())
    run = None if beside is None else SavedRun.open(beside)
    return AnswersOf(run) if run is not None and run.is_complete else None
