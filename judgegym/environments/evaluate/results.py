"""Results of an evaluation: `metrics.json`, in Atropos' structure, and the summary on the terminal.

Guarantee: the file can be cited alone. It has date and version, data, protocol and prompts, and the
judge.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from judgegym.data.rows import DatasetRead, TaskT
from judgegym.engine.anchors import AnchorResult
from judgegym.engine.metrics import Metrics
from judgegym.engine.records import POLICY_FAILED, USER_FAILED
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.settings.env import CompletionSettings
from judgegym.engine.terminal import Table
from judgegym.engine.terminal.output import format_count, format_duration
from judgegym.engine.terminal.summary import (
    COMPLETION_FAULTS,
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    format_latencies,
    headline_line,
    outcome_lines,
)
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.evaluate.metrics import (
    CategoryTotals,
    ComputedMetrics,
    is_counted_status,
)
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.extras import package_version
from judgegym.judges.config.fields import DeclaredSetting, declared_settings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judgment import Status
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.juries import PARTS as JUDGES_REPORT
from judgegym.reports.juries import JudgesReport, report_cascade, report_jury
from judgegym.reports.labels.correction import CORRECTED, Correction, correct_run
from judgegym.reports.labels.file import Labels
from judgegym.reports.labels.rendering import make_section
from judgegym.reports.results.run import SavedRun

_LONGEST_VALUE = 200
_SEPARATE_FIELDS = (
    "seed",
    "judge_model_name",
    "env.seed",
    "env.judge_model_name",
    "openai.model_name",
)


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """The rows that were evaluated, and facts about their calls.

    Attributes:
        selected: the number of rows.
        digest: a digest of everything that the judge saw of them.
        datasets: the data sets that were read.
        seconds: duration of this command; of a resumed run, the last part alone.
        finish_reasons: number of choices by role (`policy`, `judge`) and finish reason, in that
            time.
        served_models: number of responses by role and by the model that they name, in that time.
        refused_fields: how refused request fields were handled, by role, model and field.
    """

    selected: int
    digest: str
    datasets: Sequence[DatasetRead]
    seconds: float
    finish_reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    served_models: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    refused_fields: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a measurement: the subject, the method and the judge.

    Attributes:
        name: the environment's name.
        subject: the name of what was evaluated.
        judge: the judge's name.
        sampling: the sampling parameters of the models that the run called.
        prompts: digests of the judge's prompts, by setting.
        protocol: the settings that determine the results, without data and models.
        seed: seed of everything random.
        headline: the metric to quote, by its full name.
        words: the label of the headline metric.
        notes: explanations of metrics with misleading names, by full name.
    """

    name: str
    subject: str
    judge: str
    sampling: Mapping[str, JSON]
    prompts: Mapping[str, str]
    protocol: Mapping[str, JSON]
    seed: int
    headline: str
    words: str
    notes: Mapping[str, str] = field(default_factory=dict)


def make_metrics_file(
    env: JudgedEnv[Any, TaskT, DetailT],
    runner: RowRunner[TaskT, DetailT],
    rows: EvaluatedRows,
    metrics: Metrics,
    *,
    notices: Sequence[str],
    tables: Sequence[Table] = (),
    anchors: AnchorResult | None = None,
) -> dict[str, JSON]:
    """Make the content of `metrics.json`.

    Args:
        env: the environment.
        runner: the runner, which knows the models that were called.
        rows: the rows that were evaluated.
        metrics: the metrics.
        notices: remarks that a reader of the numbers needs.
        tables: further tables of the environment.
        anchors: the result of the anchors, if there are any.
    """
    config = env.config
    policy = config if runner.asks_policy else None
    judge = None if config.policy_is_judge else config
    facts = RunFacts(
        name=env.spec.name,
        subject=runner.subject,
        judge=runner.judge_name,
        sampling=describe_sampling(policy, judge),
        prompts=config.prompt_digests(),
        protocol=describe_protocol(env.settings.matters(), declared_settings(type(config), "env.")),
        seed=config.seed,
        headline=f"eval/{env.spec.headline[0]}",
        words=env.spec.headline[1],
        notes={f"eval/{name}": note for name, note in env.spec.metric_notes.items()},
    )
    more: dict[str, JSON] = {}
    if runner.answers_run is not None:
        more["answers_of"] = runner.answers_run
    if anchors is not None:
        more["anchors"] = anchors.to_json()
    return make_metrics_content(facts, rows, metrics, notices=notices, tables=tables, more=more)


def describe_sampling(
    policy: CompletionSettings | None, judge: JudgeSettings | None
) -> Mapping[str, JSON]:
    """Return the sampling parameters of the models that a run called.

    `None` for a model not called.
    """
    sampling: dict[str, JSON] = {}
    if policy is not None:
        sampling["temperature"] = policy.eval_temperature
        sampling["max_tokens"] = policy.eval_max_tokens
    if judge is not None and judge.asks_endpoint:
        sampling["judge_temperature"] = judge.judge_temperature
        sampling["judge_max_tokens"] = judge.judge_max_tokens
    return sampling


def make_metrics_content(
    facts: RunFacts,
    rows: EvaluatedRows,
    metrics: Metrics,
    *,
    notices: Sequence[str],
    tables: Sequence[Table],
    more: Mapping[str, JSON],
) -> dict[str, JSON]:
    """Make the content of `metrics.json`, with the metrics that were left out and why.

    Args:
        facts: facts about the measurement.
        rows: the rows.
        metrics: the metrics.
        notices: remarks that a reader of the numbers needs.
        tables: further tables.
        more: additional fields.
    """
    ends = metrics.ends.get(facts.headline)
    general: dict[str, JSON] = {
        "environment": facts.name,
        "model_name": facts.subject,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "judgegym_version": package_version(),
        "total_evaluation_time_seconds": str(rows.seconds),
        "generation_parameters": dict(facts.sampling),
        "judge_model_name": facts.judge,
        "judge_prompt_digests": dict(facts.prompts),
        "datasets": [dataset.to_json() for dataset in rows.datasets],
        "rows": {"selected": rows.selected, "digest": rows.digest},
        "protocol": dict(facts.protocol),
        "seed": facts.seed,
        "headline": facts.headline,
        "headline_words": facts.words,
        "headline_scale": None if ends is None else [*ends],
        "metric_notes": dict(facts.notes),
        "finish_reasons": {
            role: dict(sorted(by_reason.items()))
            for role, by_reason in rows.finish_reasons.items()
            if by_reason
        },
        "served_models": {
            role: dict(sorted(by_model.items()))
            for role, by_model in rows.served_models.items()
            if by_model
        },
        "refused_fields": dict(rows.refused_fields),
        "notices": list(notices),
        "left_out": dict(metrics.left_out),
        "unknown": dict(metrics.unknown),
        **more,
    }
    if tables:
        general["tables"] = [
            {
                "title": table.title,
                "header": list(table.header),
                "rows": [list(row) for row in table.rows],
            }
            for table in tables
        ]
    values = metrics.to_json()
    return {
        "config_general": general,
        "results": {f"atropos|{facts.name}_eval|0": values, "all": values},
    }


async def write_results(
    run: RunDirectory, content: dict[str, JSON], config: JudgeSettings, labels: Labels | None
) -> tuple[JudgesReport | None, Correction | None]:
    """Write `metrics.json`, with a report on a jury or cascade and with label-corrected numbers.

    Args:
        run: the run directory.
        content: the content of `metrics.json`.
        config: the settings of the judge.
        labels: human labels; `None` without any.

    Returns:
        The report (`None` for other judges), and the corrected numbers (`None` without labels).

    Raises:
        DataError: the labels are of another run; the metrics are on disk already.
    """
    await run.write_metrics(content)
    report: JudgesReport | None = None
    correction: Correction | None = None
    if isinstance(config, JurySettings) and config.is_jury:
        label_means: Mapping[str, float] = {}
        if labels is not None:
            label_means = labels.means()
        report = await asyncio.to_thread(
            lambda: report_jury(SavedRun.open(run.path), config, label_means)
        )
    elif (
        isinstance(config, AnyJudgeSettings)
        and (cascade := config.match_settings(CascadeSettings)) is not None
    ):
        report = await asyncio.to_thread(lambda: report_cascade(SavedRun.open(run.path), cascade))
    if report is not None:
        content["config_general"] = {
            **mapping_or_empty(content["config_general"]),
            JUDGES_REPORT: asdict(report),
        }
        await run.write_metrics(content)
        if report.is_broken:
            run.log.write(report.words[-1], logging.WARNING)
    if labels is not None:
        correction = await asyncio.to_thread(lambda: correct_run(SavedRun.open(run.path), labels))
        content["config_general"] = {
            **mapping_or_empty(content["config_general"]),
            CORRECTED: asdict(correction),
        }
        await run.write_metrics(content)
    return report, correction


def describe_protocol(
    settings: Mapping[str, JSON], declared: Iterable[DeclaredSetting]
) -> dict[str, JSON]:
    """Return the settings that determine the results, without data and models.

    Long texts as digests.

    Args:
        settings: the settings that determine the results, by name.
        declared: all declared settings; their groups tell which settings are about data.
    """
    elsewhere = {
        *_SEPARATE_FIELDS,
        *(declaration.name for declaration in declared if declaration.group == "data"),
    }
    values: dict[str, JSON] = {}
    for name, value in settings.items():
        if name in elsewhere or value is None:
            continue
        if isinstance(value, str) and len(value) > _LONGEST_VALUE:
            value = prompt_digest(value)
        values[name] = value
    return values


_MAX_CATEGORIES = 12
FAILURE_WORDS = {
    Status.JUDGE_FAILED.value: "the judge failed",
    Status.UNPARSABLE.value: "no verdict",
    POLICY_FAILED: "the policy failed",
    USER_FAILED: "the user failed",
}
"""Descriptions of failures, by the status of a row that does not count."""


def make_summary(
    env: JudgedEnv[Any, Any, Any],
    title: str,
    computed: ComputedMetrics,
    outcomes: Outcomes,
    rows: EvaluatedRows,
    notices: Sequence[str],
    correction: Correction | None,
    judges: JudgesReport | None = None,
    *,
    is_resumed: bool,
) -> Summary:
    """Make the summary that the command prints.

    Args:
        env: the environment.
        title: the title, with subject and judge.
        computed: the metrics.
        outcomes: the final statuses of the rows.
        rows: the rows that were evaluated, and the duration of this command.
        notices: remarks that a reader of the numbers needs.
        correction: the corrected numbers, if there are labels.
        judges: the report on a jury or a cascade.
        is_resumed: whether an earlier run had finished some of the rows.
    """
    metrics, selected, finished = computed.metrics, outcomes.rows, outcomes.finished
    row_count = format_count(selected, "row")
    if finished < selected:
        row_count = f"{finished:,} of {row_count}"
    remarks = ["since it was resumed"] if is_resumed else []
    remarks += filter(None, [format_latencies(metrics, "eval")])
    data = "; ".join(map(describe_dataset, rows.datasets))
    reports = []
    if correction is not None:
        reports.append(make_section(correction))
    if judges is not None:
        reports.append(judges.section())
    return Summary(
        title=title,
        headline=headline_line(
            metrics,
            f"eval/{env.spec.headline[0]}",
            env.spec.headline[1],
            basis=row_count,
            counted=finished,
        ),
        sections=(
            *reports,
            Section("outcomes", outcome_lines(env.spec.outcomes, metrics, "eval", faults=False)),
            Section("categories", make_category_lines(computed.categories)),
            Section("went wrong", _list_faults(env, metrics, outcomes.statuses), is_alarm=True),
            Section("data", [SummaryLine("", "", data)] if data else []),
            Section("cost", cost_lines(metrics, "eval")),
            Section("time", [SummaryLine("", format_duration(rows.seconds), "; ".join(remarks))]),
        ),
        notices=notices,
    )


def describe_dataset(dataset: DatasetRead) -> str:
    """Return the name of a data set and its number of rows."""
    rows = format_count(dataset.rows, "row")
    if dataset.split is None:
        return f"{dataset.name} ({rows})"
    return f"{dataset.name}, split {dataset.split} ({rows})"


def make_category_lines(categories: CategoryTotals) -> list[SummaryLine]:
    """Return a line for each of the largest categories, and one for the others together."""
    shown, others = categories.largest(_MAX_CATEGORIES)
    lines = [
        SummaryLine(name, f"{category.value:.4f}", f"n = {category.rows:,}")
        for name, category in shown.items()
    ]
    if others is not None:
        count = len(categories) - len(shown)
        lines.append(SummaryLine(f"{count:,} more", f"{others.value:.4f}", f"n = {others.rows:,}"))
    return lines


def _list_faults(
    env: JudgedEnv[Any, Any, Any], metrics: Metrics, statuses: Counter[str]
) -> list[SummaryLine]:
    """Return a line for each kind of failure that occurred."""
    lines = []
    for status, words in FAILURE_WORDS.items():
        if statuses[status]:
            treatment = "are left out"
            if is_counted_status(status, policy_is_judge=env.config.policy_is_judge):
                treatment = "count as wrong"
            lines.append(SummaryLine(words, f"{statuses[status]:,}", f"rows {treatment}"))
    if statuses[Status.INVALID_COMPLETION.value]:
        malformed = statuses[Status.INVALID_COMPLETION.value]
        lines.append(
            SummaryLine(
                "malformed", f"{malformed:,}", "rows count as wrong: wrong format, refused or empty"
            )
        )
    for name, words in COMPLETION_FAULTS.items():
        total = metrics.observations.get(f"eval/{name}", 0)
        faults = round(metrics.values.get(f"eval/{name}", 0.0) * total)
        if faults:
            lines.append(SummaryLine(words, f"{faults:,}", f"of {total:,} answers of the policy"))
    return [*lines, *outcome_lines(env.spec.outcomes, metrics, "eval", faults=True)]
