"""The end of a run whose responses have all ended: its metrics, `metrics.json`, and what is to be said of it.

Guarantee: what is computed comes from the lines on disk, in a thread, so that a signal is heard meanwhile.

`metrics.json` of a run: in the structure of an evaluation's, so that whatever reads one reads the other.

What the command prints of a run: the mean score, what went wrong, the cost, where all is, and what to type next.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from judgegym.data.opening import STDIN, kind_of
from judgegym.data.rows import DatasetRead
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.results.numbers import (
    BEST,
    CHOSEN_HIGHER,
    HEADLINE,
    HEADLINE_WORDS,
    INCOMPLETE,
    MARGIN,
    MOST_CATEGORIES,
    ScoreNumbers,
    score_numbers,
)
from judgegym.datasets.score.saved import SavedResponses
from judgegym.datasets.score.settings import AnswersOf, ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import FAILURES, METRICS, REPORT, RunDirectory
from judgegym.engine.settings.policy import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.engine.terminal.output import duration
from judgegym.engine.terminal.progress import rate_words
from judgegym.engine.terminal.summary import (
    Outcome,
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    headline_line,
    latency_words,
    outcome_lines,
)
from judgegym.environments.evaluate.evaluation import FAILURE_WORDS, category_lines
from judgegym.environments.evaluate.metrics_file import EvaluatedRows, RunFacts, file_of, sampling_of, shortened
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.core.judgment import Status
from judgegym.judges.scorers.registry import JUDGES, ScorerSettings
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.wire import JSON

_FILES = {
    REPORT: "the page to read",
    FAILURES: "responses without a score, and why",
    METRICS: "all metrics, and how they were measured",
}
_OF_SEVERAL = (("best", "--best"), ("pairs", "--pairs"))
_OF_ONE = (("good", "--threshold", "0.5"),)
_WITHIN_ROWS = (
    Outcome.of("best of a prompt", BEST, unit="number"),
    Outcome.of("chosen − rejected", MARGIN, unit="number"),
    Outcome.of("chosen is higher", CHOSEN_HIGHER),
)


@dataclass(frozen=True, slots=True)
class Part:
    """What this command has done of a run: how long it took, for how many responses, and whether it went on.

    Attributes:
        finish_reasons: how many choices of `policy` and `judge` ended with each finish reason.
    """

    seconds: float
    responses: int
    is_resumed: bool
    finish_reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def failed(outcomes: Outcomes) -> int:
    """How many responses have no score although there was something to judge."""
    return sum(outcomes.statuses[status] for status in FAILURE_WORDS)


def summary_of(
    title: str, numbers: ScoreNumbers, outcomes: Outcomes, part: Part, run: Path, notices: Sequence[str]
) -> Summary:
    """What is printed.

    Args:
        title: what was judged, and by whom.
        numbers: the results.
        outcomes: how the responses ended.
        part: what this command has done.
        run: the run directory.
        notices: what a reader of the numbers must know.
    """
    metrics, count = numbers.metrics, outcomes.rows
    counted = count - failed(outcomes)
    of = f"{counted:,} of {count:,} responses" if counted < count else f"{count:,} responses"
    since = "since it was resumed" if part.is_resumed else ""
    rate = rate_words(part.responses / part.seconds, "responses") if part.seconds else ""
    remark = "; ".join(filter(None, (since, rate, latency_words(metrics, "eval"))))
    return Summary(
        title=title,
        headline=headline_line(metrics, f"eval/{HEADLINE}", HEADLINE_WORDS, of=of, counted=counted),
        sections=(
            Section("scores", [*_distribution(metrics)]),
            Section("several responses to a prompt", [*_within_rows(metrics)]),
            Section("categories", category_lines(numbers.categories)),
            Section("went wrong", [*_faults(metrics, outcomes, run)], is_alarm=True),
            Section("cost", cost_lines(metrics, "eval")),
            Section("time", [SummaryLine("", duration(part.seconds), remark)]),
        ),
        notices=notices,
    )


def _distribution(metrics: Metrics) -> Iterator[SummaryLine]:
    names = ("median", "p25", "p75", "min", "max")
    found = [metrics.values.get(f"eval/score_{name}") for name in names]
    median, lower, upper, least, most = found
    if median is not None:
        yield SummaryLine(
            "median", f"{median:.4f}", f"the middle half {lower:.4f} to {upper:.4f}, all {least:.4f} to {most:.4f}"
        )
    equal = metrics.values["eval/equal_responses"]
    if equal:
        yield SummaryLine("equal", f"{equal:,}", "responses that share the judgment of an equal one")


def _within_rows(metrics: Metrics) -> Iterator[SummaryLine]:
    yield from outcome_lines(_WITHIN_ROWS, metrics, "eval", faults=False)
    incomplete = metrics.values.get(f"eval/{INCOMPLETE}")
    if incomplete:
        yield SummaryLine("left out of these", f"{incomplete:,}", "prompts of which a response has no score")


def _faults(metrics: Metrics, outcomes: Outcomes, run: Path) -> Iterator[SummaryLine]:
    """What went wrong, each only above 0."""
    for status, words in FAILURE_WORDS.items():
        if outcomes.statuses[status]:
            where = f"responses have no score; they are in {run / FAILURES}"
            yield SummaryLine(words, f"{outcomes.statuses[status]:,}", where)
    empty = outcomes.statuses[Status.INVALID_COMPLETION.value]
    if empty:
        what = "empty" if metrics.values.get("eval/policy_calls") is None else "empty, malformed or refusals"
        yield SummaryLine("invalid", f"{empty:,}", f"responses are {what}: no score, and 0 in the mean")
    bad = metrics.values["eval/bad_rows"]
    if bad:
        yield SummaryLine("bad rows", f"{bad:,}", f"rows could not be judged; {run.stem}.quarantine.jsonl says why")
    suspects = metrics.values.get("eval/judge_injection_suspects", 0)
    if suspects:
        yield SummaryLine(
            "suspects", f"{suspects:,}", "tokens or markers of the judge's prompt, in texts under judgment"
        )


def too_many_failures(outcomes: Outcomes, highest: float) -> str | None:
    """Why the command must fail, if more responses failed than `max_judge_error_rate` allows."""
    count = failed(outcomes)
    if not outcomes.rows or count / outcomes.rows <= highest:
        return None
    return (
        f"{count:,} of {outcomes.rows:,} responses have no score ({count / outcomes.rows:.1%}); --max_judge_error_rate "
        f"allows {highest:.1%}. The last error: {outcomes.last_error}"
    )


def selecting(out: Path, *, is_several: bool) -> list[str]:
    """Commands that select from a file, each into a folder of its own, where its card is not in the way of another's.

    Args:
        out: the file of the scored rows.
        is_several: there are several responses to a prompt, which were judged together or stand in one row.
    """
    rules = _OF_SEVERAL if is_several else _OF_ONE
    targets = [(str(out.parent / folder / f"train{out.suffix}"), rule) for folder, *rule in rules]
    return [shlex.join(["judgegym", "select", str(out), "--out", target, *rule]) for target, rule in targets]


def what_is_where(out: Path, run: Path | None, then: Sequence[str]) -> list[str]:
    """Where the file and the run are, what in it is for people, and what to type next, in lines.

    Args:
        out: the file of the scored rows.
        run: the run directory, if there is one.
        then: commands that go on from here.
    """
    said = [f"The scored rows are in {out}"]
    if run is not None:
        there = [name for name in _FILES if (run / name).exists() and (run / name).stat().st_size]
        said += [f"The run is in {run}", *(f"  {name:<14}  {_FILES[name]}" for name in there)]
    commands = [] if run is None or (run / REPORT).exists() else [shlex.join(["judgegym", "report", str(out)])]
    commands += then
    return [*said, *(["Next:"] if commands else []), *(f"  {command}" for command in commands)]


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
    data = {each.name for each in declared_settings(ScoreSettings) if each.group == "data"}
    return {
        name: shortened(value)
        for name, value in settings.matters().items()
        if name not in data
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
    tasks: ScoreTasks,
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
        tasks: of the run.
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
    numbers = await asyncio.to_thread(score_numbers, tasks, saved, outcomes, settings.thinking_mode, seed=settings.seed)
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
