"""The end of a run whose responses have all ended: its metrics, `metrics.json`, and what is to be said of it.

Guarantee: what is computed comes from the lines on disk, in a thread, so that a signal is heard meanwhile.

`metrics.json` of a run: in the structure of an evaluation's, so that whatever reads one reads the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from judgegym.data.opening import STDIN, kind_of
from judgegym.data.provenance import DatasetRead
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.input import AnswersOf
from judgegym.datasets.score.results.numbers import (
    HEADLINE,
    HEADLINE_WORDS,
    MOST_CATEGORIES,
    ScoreNumbers,
    score_numbers,
)
from judgegym.datasets.score.results.summary import Part, failed, summary_of, too_many_failures
from judgegym.datasets.score.saved import SavedResponses
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.settings.values import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.environments.evaluate.metrics_file import EvaluatedRows, RunFacts, file_of, sampling_of, shortened
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.config.fields import group_of
from judgegym.judges.scorers.registry import JUDGES, ScorerSettings
from judgegym.judges.tournament.game import TournamentSettings
from judgegym.llm.wire import JSON

ENVIRONMENT = "score"
RESPONSES = "responses"
_SAID_ELSEWHERE = ("seed", "judge_model_name", "openai.model_name")
_NOTES = {
    f"eval/{HEADLINE}": "a response whose judge failed is left out, an empty or invalid one counts as 0",
    "eval/selected_rows": "responses",
    "eval/total_samples": "responses with a score, and empty or invalid ones",
}


@dataclass(frozen=True, slots=True)
class RunTitle:
    """What a run is called: what was judged, and who judged it."""

    subject: str
    judge: str

    @classmethod
    def of(cls, settings: ScoreSettings, answers_of: AnswersOf | None) -> RunTitle:
        """The name of the data set without folder and ending, after that of its policy; and that of the judge.

        What was judged before is called as then.
        """
        given = settings.data or ""
        data = PurePath(given.removesuffix(".gz"))
        subject = "standard input" if given == STDIN else data.stem if kind_of(given) else str(data)
        if settings.responses_per_prompt is not None:
            subject = f"{STAND_IN_POLICY if settings.offline else settings.openai.model_name} on {subject}"
        if answers_of is not None:
            subject = answers_of.subject
        return cls(subject, STAND_IN_JUDGE if settings.offline else settings.judge_model_name)

    @property
    def title(self) -> str:
        """What is shown above the results."""
        return f"{ENVIRONMENT}: {self.subject}, judged by {self.judge}"


def metrics_file(
    settings: ScoreSettings,
    rows: EvaluatedRows,
    numbers: ScoreNumbers,
    notices: Sequence[str],
    answers_of: AnswersOf | None,
) -> Mapping[str, JSON]:
    """The content of `metrics.json`.

    Args:
        settings: of the run.
        rows: what was judged; a row of a run is a response.
        numbers: the results.
        notices: what a reader of the numbers must know.
        answers_of: the run that judged the same responses before, if there is one.
    """
    named = RunTitle.of(settings, answers_of)
    measured = RunFacts(
        name=ENVIRONMENT,
        subject=named.subject,
        judge=named.judge,
        sampling=sampling_of(None if settings.responses_per_prompt is None else settings, settings),
        prompts=settings.prompt_digests(),
        protocol=protocol(settings),
        seed=settings.seed,
        headline=f"eval/{HEADLINE}",
        words=HEADLINE_WORDS,
        notes=_NOTES,
    )
    more: dict[str, JSON] = {"items": RESPONSES}
    if answers_of is not None:
        more["answers_of"] = answers_of.to_json()
    return file_of(measured, rows, numbers.metrics, notices=notices, tables=numbers.tables, more=more)


def protocol(settings: ScoreSettings) -> Mapping[str, JSON]:
    """The settings that determine the results, without the data, and of the judge those that its kind reads."""
    of_kind = {"judge", "rubric", *JUDGES[settings.judge].settings.model_fields}
    if settings.judge == "arena_hard":  # which compares responses as a tournament
        of_kind |= TournamentSettings.model_fields.keys()
    return {
        name: shortened(value)
        for name, value in settings.matters().items()
        if (name not in ScoreSettings.model_fields or group_of(ScoreSettings, name) != "data")
        and name not in _SAID_ELSEWHERE
        and value is not None
        and (name in of_kind or name not in ScorerSettings.model_fields)
    }


@dataclass(frozen=True, slots=True)
class Result:
    """The numbers of a run.

    Attributes:
        statuses: how many responses ended with each status.
        metrics: the metrics.
        summary: what the terminal shows.
        problem: why the command must fail, or `None`.
    """

    statuses: Counter[str]
    metrics: Metrics
    summary: terminal.Summary
    problem: str | None


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """What a command has written.

    Attributes:
        out: the file.
        run: the run directory; `None` for merged shards that had none.
        result: the numbers of the run; `None` without one.
    """

    out: Path
    run: Path | None = None
    result: Result | None = None

    @property
    def problem(self) -> str | None:
        """Why the command must fail, or `None`."""
        return None if self.result is None else self.result.problem


async def concluded(
    settings: ScoreSettings,
    units: ScoreTasks,
    saved: SavedResponses,
    run: RunDirectory,
    *,
    datasets: Sequence[DatasetRead],
    answers_of: AnswersOf | None,
    notices: Sequence[str],
    part: Part,
) -> Result:
    """Compute the metrics, write `metrics.json` and the log.

    Args:
        settings: of the run.
        units: of the run.
        saved: its responses, each with a line.
        run: the run directory.
        datasets: what was read.
        answers_of: the run that judged the same responses before, if there is one.
        notices: of the judge's client.
        part: what this command has done.

    Raises:
        DiskFull: the disk refused for too long.
    """
    outcomes = saved.outcomes()
    numbers = await asyncio.to_thread(score_numbers, units, saved, outcomes, settings.thinking_mode, seed=settings.seed)
    said = [*notices, *_notices(settings, numbers)]
    rows = EvaluatedRows(outcomes.rows, numbers.digest, datasets, part.seconds, part.finish_reasons)
    await run.write_metrics(metrics_file(settings, rows, numbers, said, answers_of))
    problem = too_many_failures(outcomes, settings.max_judge_error_rate)
    _log(run, numbers.metrics, outcomes, problem)
    summary = summary_of(RunTitle.of(settings, answers_of).title, numbers, outcomes, part, run.path, said)
    return Result(outcomes.statuses, numbers.metrics, summary, problem)


def _notices(settings: ScoreSettings, numbers: ScoreNumbers) -> list[str]:
    """What a reader of the numbers must know."""
    said = [terminal.offline_notice(settings.stand_ins)] if settings.offline else []
    if len(numbers.categories) > MOST_CATEGORIES:
        said.append(
            f"{settings.category_column} has {len(numbers.categories):,} values; the {MOST_CATEGORIES} most frequent "
            "have metrics of their own."
        )
    return said


def _log(run: RunDirectory, metrics: Metrics, outcomes: Outcomes, problem: str | None) -> None:
    value = metrics.values.get(f"eval/{HEADLINE}")
    if value is not None:
        run.log.write(f"eval/{HEADLINE}: {value:.4f}")
    count = failed(outcomes)
    if count:
        line = f"{count} of {outcomes.rows} responses have no score; the last error: {outcomes.last_error}"
        run.log.write(line, logging.WARNING)
    if problem is not None:
        run.log.write(problem, logging.ERROR)
