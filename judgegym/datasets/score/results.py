"""Finish a run whose responses have all ended: metrics, `metrics.json`, the printed summary.

Guarantee: numbers are computed from the lines on disk, in a thread, so that signals are handled
meanwhile.

`metrics.json` has the structure of an evaluation's, so that the same tools read both.

The command prints the mean score, what went wrong, the cost, the paths and the next commands.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from judgegym.data.opening import STDIN, parse_file_kind
from judgegym.datasets.files.writer import locate_quarantine, quarantine_lines
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.input import ScoreInput
from judgegym.datasets.score.numbers import (
    BEST,
    HEADLINE,
    HEADLINE_WORDS,
    INCOMPLETE,
    MARGIN,
    MOST_CATEGORIES,
    compute_numbers,
)
from judgegym.datasets.score.saved import SavedResponses
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.datasets.score.verdicts import verdict_sections
from judgegym.engine import terminal
from judgegym.engine.anchors import AnchorResult
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import FAILURES, METRICS, REPORT, RunDirectory
from judgegym.engine.runs.disk import Disk
from judgegym.engine.settings.policy import STAND_IN_POLICY
from judgegym.engine.terminal.output import format_count, format_duration
from judgegym.engine.terminal.progress import format_rate
from judgegym.engine.terminal.summary import (
    Outcome,
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    format_latencies,
    headline_line,
    outcome_lines,
)
from judgegym.environments.evaluate.evaluation import EvaluationResult
from judgegym.environments.evaluate.results import (
    FAILURE_WORDS,
    EvaluatedRows,
    RunFacts,
    describe_protocol,
    describe_sampling,
    make_category_lines,
    make_metrics_content,
    write_results,
)
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.core.judgment import Status
from judgegym.judges.scorers.registry import reads_setting
from judgegym.judges.scorers.settings import KindSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.labels.file import read_labels
from judgegym.reports.labels.rendering import make_section
from judgegym.reports.results.run import CHOSEN_HIGHER, SavedRun
from judgegym.statistics import percent

_FILES = {
    REPORT: "the page to read",
    FAILURES: "responses without a score, and why",
    METRICS: "all metrics, and how they were measured",
}
_GROUP_RULES = (("best", "--best"), ("pairs", "--pairs"))
_SINGLE_RULES = (("good", "--threshold", "0.5"),)
_CHOSEN = Outcome.from_metric("chosen is higher", CHOSEN_HIGHER)
_WITHIN_ROWS = (
    Outcome.from_metric("best of a prompt", BEST, unit="number"),
    Outcome.from_metric("chosen − rejected", MARGIN, unit="number"),
    _CHOSEN,
)
_VALUE = f"eval/{HEADLINE}"
_NOTES = {
    _VALUE: "a response whose judge failed is left out, an empty or invalid one counts as 0",
    "eval/selected_rows": "responses",
    "eval/total_samples": "responses with a score, and empty or invalid ones",
}


async def conclude(
    settings: ScoreSettings,
    score_input: ScoreInput,
    tasks: ScoreTasks,
    saved: SavedResponses,
    started: float,
    *,
    earlier: int = 0,
    clients: ScoreClients | None = None,
    anchors: AnchorResult | None = None,
) -> EvaluationResult:
    """Compute the metrics, and write `metrics.json` and the log.

    Args:
        settings: the run's settings.
        score_input: the input that was read.
        tasks: the run's tasks.
        saved: the responses, each with a line in the run directory.
        started: when this command began to judge, on the monotonic clock.
        earlier: the number of responses that an earlier command has judged.
        clients: the clients of this command; `None` if it made no calls.
        anchors: the result of the anchors, if there are any.

    Raises:
        DataError: the labels are not of this run; its metrics are on disk.
        DiskFull: the disk refused for too long.
    """
    run = saved.run
    outcomes = saved.outcomes()
    seconds = time.monotonic() - started
    numbers = await asyncio.to_thread(
        compute_numbers, tasks, saved, outcomes, settings.thinking_mode, parts=settings.part_names
    )
    metrics = numbers.metrics
    notices = [] if clients is None else clients.notices
    if settings.stand_ins:
        notices.append(terminal.offline_notice(settings.stand_ins))
    if len(numbers.categories) > MOST_CATEGORIES:
        notices.append(
            f"{settings.category_column} has {len(numbers.categories):,} values; the "
            f"{MOST_CATEGORIES} most frequent have metrics of their own."
        )
    rows = EvaluatedRows(outcomes.rows, numbers.digest, score_input.datasets, seconds)
    if clients is not None:
        reasons = clients.finish_reasons
        served = clients.served_models
        refused = clients.refused_fields
        rows = replace(rows, finish_reasons=reasons, served_models=served, refused_fields=refused)
    extra: dict[str, JSON] = {"items": "responses"}
    if anchors is not None:
        notices.append(anchors.summary)
        extra["anchors"] = anchors.to_json()
    if score_input.answers_run is not None:
        extra["answers_of"] = _describe_answers(score_input.answers_run)
    facts = _run_facts(settings, score_input.answers_run)
    content = make_metrics_content(
        facts, rows, metrics, notices=notices, tables=numbers.tables, more=extra
    )
    labels = None if settings.labels is None else read_labels(settings.labels)
    judges, correction = await write_results(run, content, settings, labels)
    problem = _log_result(run, metrics, outcomes, settings.max_judge_error_rate)
    judged = 0 if clients is None else len(saved) - earlier
    rate = format_rate(judged / seconds, "responses") if seconds else ""
    remarks = ("since it was resumed" if earlier else "", rate, format_latencies(metrics, "eval"))
    is_whole = outcomes.finished == outcomes.rows
    total = f"{outcomes.rows:,} responses"
    if not is_whole:
        total = f"{outcomes.finished:,} of {total}"
    mean = headline_line(metrics, _VALUE, HEADLINE_WORDS, basis=total, counted=outcomes.finished)
    headline = mean
    score_lines = [*_distribution_lines(metrics)]
    preferred = _chosen_higher_line(metrics)
    if preferred is not None:
        headline = preferred
        score_lines.insert(0, mean)
    first_sections = []
    if correction is not None:
        first_sections.append(make_section(correction))
    if judges is not None:
        first_sections.append(judges.section())
    summary = Summary(
        title=f"score: {facts.subject}, judged by {facts.judge}",
        headline=headline,
        sections=(
            *first_sections,
            Section("scores", score_lines),
            *verdict_sections(numbers.by_name),
            Section("several responses to a prompt", [*_summarize_rows(metrics)]),
            Section("categories", make_category_lines(numbers.categories)),
            Section("went wrong", [*_fault_lines(metrics, outcomes, run.path)], is_alarm=True),
            Section("cost", cost_lines(metrics, "eval")),
            Section(
                "time",
                [SummaryLine("", format_duration(seconds), "; ".join(filter(None, remarks)))],
            ),
        ),
        notices=notices,
    )
    return EvaluationResult(run.path, metrics, problem, tuple(notices), numbers.tables, summary)


def _log_result(
    run: RunDirectory, metrics: Metrics, outcomes: Outcomes, highest: float
) -> str | None:
    """Log the result; return why the command must fail, if too many responses failed."""
    if _VALUE in metrics.values:
        run.log.write(f"{_VALUE}: {metrics.values[_VALUE]:.4f}")
    failed = outcomes.rows - outcomes.finished
    if not failed:
        return None
    line = (
        f"{failed} of {outcomes.rows} responses have no score; the last error: "
        f"{outcomes.last_error}"
    )
    run.log.write(line, logging.WARNING)
    if failed / outcomes.rows <= highest:
        return None
    rate = percent(failed / outcomes.rows)
    limit = percent(highest)
    problem = (
        f"{failed:,} of {outcomes.rows:,} responses have no score ({rate}); "
        f"--max_judge_error_rate allows {limit}. The last error: {outcomes.last_error}"
    )
    run.log.write(problem, logging.ERROR)
    return problem


def _run_facts(settings: ScoreSettings, answers_run: SavedRun | None) -> RunFacts:
    """Return what was measured, how, and by whom; without settings that the judge ignores."""

    def is_read(name: str) -> bool:
        return name not in KindSettings.model_fields or reads_setting(settings.judge, name)

    matters = {name: value for name, value in settings.matters().items() if is_read(name)}
    return RunFacts(
        name="score",
        subject=_describe_subject(settings, answers_run),
        judge=settings.judged_by,
        sampling=describe_sampling(
            None if settings.responses_per_prompt is None else settings, settings
        ),
        prompts=settings.prompt_digests(),
        protocol=describe_protocol(matters, declared_settings(type(settings))),
        seed=settings.seed,
        headline=_VALUE,
        words=HEADLINE_WORDS,
        notes=_NOTES,
    )


def _describe_subject(settings: ScoreSettings, answers_run: SavedRun | None) -> str:
    """Return the name of what was judged: the data set's file stem, with a policy `POLICY on NAME`.

    A file that is judged again keeps the name of its earlier run.
    """
    if answers_run is not None:
        return answers_run.policy
    data_name = settings.data or ""
    data = PurePath(data_name.removesuffix(".gz"))
    if data_name == STDIN:
        name = "standard input"
    elif parse_file_kind(data_name):
        name = data.stem
    else:
        name = str(data)
    if settings.responses_per_prompt is None:
        return name
    policy = STAND_IN_POLICY if settings.offline else settings.openai.model_name
    return f"{policy} on {name}"


def _describe_answers(run: SavedRun) -> dict[str, JSON]:
    """Describe, for `metrics.json`, the run that judged the same responses before.

    Its data and its number of responses also hold for this run.
    """
    general, count_key = run.general, "responses_per_prompt"
    return {
        "path": str(run.path),
        "environment": run.environment,
        "policy": run.policy,
        "judge": run.judge,
        "date": run.date.isoformat(timespec="seconds"),
        count_key: wire.lookup(general, f"protocol.{count_key}")
        or wire.lookup(general, f"answers_of.{count_key}"),
        "datasets": wire.lookup(general, "answers_of.datasets", general.get("datasets")),
    }


def _distribution_lines(metrics: Metrics) -> Iterator[SummaryLine]:
    names = ("median", "p25", "p75", "min", "max")
    median, lower, upper, least, most = (metrics.values.get(f"eval/score_{name}") for name in names)
    if median is not None:
        yield SummaryLine(
            "median",
            f"{median:.4f}",
            f"the middle half {lower:.4f} to {upper:.4f}, all {least:.4f} to {most:.4f}",
        )
    equal = metrics.values["eval/equal_responses"]
    if equal:
        yield SummaryLine(
            "equal", f"{equal:,}", "responses that share the judgment of an equal one"
        )


def _chosen_higher_line(metrics: Metrics) -> SummaryLine | None:
    """Return the rate at which chosen responses score higher: the headline of preference data."""
    name = f"eval/{CHOSEN_HIGHER}"
    if name not in metrics.values:
        return None
    prompts = format_count(metrics.observations[name], "prompt")
    return headline_line(
        metrics, name, _CHOSEN.words, basis=prompts, counted=metrics.observations[name]
    )


def _summarize_rows(metrics: Metrics) -> Iterator[SummaryLine]:
    shown = [*_WITHIN_ROWS]
    if f"eval/{CHOSEN_HIGHER}" in metrics.values:
        shown = [outcome for outcome in _WITHIN_ROWS if outcome is not _CHOSEN]
    yield from outcome_lines(shown, metrics, "eval", faults=False)
    incomplete = metrics.values.get(f"eval/{INCOMPLETE}")
    if incomplete:
        yield SummaryLine(
            "left out of these", f"{incomplete:,}", "prompts of which a response has no score"
        )


def _fault_lines(metrics: Metrics, outcomes: Outcomes, run: Path) -> Iterator[SummaryLine]:
    """Yield the counts of what went wrong, each only above 0."""
    invalid_kinds = "empty, malformed or refusals"
    if metrics.values.get("eval/policy_calls") is None:
        invalid_kinds = "empty"
    suspects = "tokens or markers of the judge's prompt, in texts under judgment"
    invalid = Status.INVALID_COMPLETION.value
    faults = [
        (words, outcomes.statuses[status], f"responses have no score; they are in {run / FAILURES}")
        for status, words in FAILURE_WORDS.items()
    ]
    faults += [
        (
            "invalid",
            outcomes.statuses[invalid],
            f"responses are {invalid_kinds}: no score, and 0 in the mean",
        ),
        (
            "bad rows",
            _count_metric(metrics, "bad_rows"),
            f"rows could not be judged; {run.stem}.quarantine.jsonl says why",
        ),
        ("suspects", _count_metric(metrics, "judge_injection_suspects"), suspects),
    ]
    yield from (
        SummaryLine(words, f"{count:,}", remark) for words, count, remark in faults if count
    )


def _count_metric(metrics: Metrics, name: str) -> int:
    return int(metrics.values.get(f"eval/{name}", 0))


def select_commands(out: Path, *, is_several: bool) -> list[str]:
    """Return commands that select from a scored file, each into its own folder (with its own card).

    Args:
        out: the file of the scored rows.
        is_several: prompts have several responses, judged together or in one row.
    """
    rules = _GROUP_RULES if is_several else _SINGLE_RULES
    targets = [(str(out.parent / folder / f"train{out.suffix}"), rule) for folder, *rule in rules]
    return [
        shlex.join(["judgegym", "select", str(out), "--out", target, *rule])
        for target, rule in targets
    ]


def show_result(
    result: EvaluationResult | None, out: Path, next_commands: Sequence[str] = ()
) -> None:
    """Print the summary of a run, the paths of its files, and the next commands.

    Args:
        result: the run's result; `None` for merged shards without runs.
        out: the file of the scored rows.
        next_commands: the next commands.
    """
    if result is not None and result.summary is not None:
        terminal.show_summary(result.summary)
    lines = [f"The scored rows are in {out}"]
    commands = list[str]()
    if result is not None:
        run = result.path
        present_files = [name for name in _FILES if (run / name).exists()]
        written_files = [name for name in present_files if (run / name).stat().st_size]
        lines += [
            f"The run is in {run}",
            *(f"  {name:<14}  {_FILES[name]}" for name in written_files),
        ]
        if not (run / REPORT).exists():
            commands.append(shlex.join(["judgegym", "report", str(out)]))
    commands += next_commands
    if commands:
        lines += ["Next:", *(f"  {command}" for command in commands)]
    for line in lines:
        terminal.say(line)


async def write_quarantine(tasks: ScoreTasks, out: Path, disk: Disk) -> None:
    """Write the file of rows that could not be judged; without any, remove an earlier file.

    Raises:
        DiskFull: the disk refused for too long.
    """
    path, lines = locate_quarantine(out), tasks.bad_lines
    if tasks.bad or lines:
        await disk.write(path, lambda: quarantine_lines(tasks.bad, lines))
    else:
        path.unlink(missing_ok=True)
