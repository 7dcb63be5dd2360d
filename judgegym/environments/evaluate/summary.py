"""The summary of an evaluation: headline, outcomes, categories, what went wrong, cost and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judgegym.data.provenance import DatasetRead
from judgegym.engine.metrics import Metrics
from judgegym.engine.records import POLICY_FAILED
from judgegym.engine.terminal.outcomes import COMPLETION_FAULTS
from judgegym.engine.terminal.output import duration
from judgegym.engine.terminal.summary import (
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    headline_line,
    latency_words,
    outcome_lines,
)
from judgegym.environments.base import JudgedEnv
from judgegym.environments.evaluate.metrics import Categories, counts
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.core.judgment import Status

_MOST_CATEGORIES = 12
FAILURE_WORDS = {
    Status.JUDGE_FAILED.value: "the judge failed",
    Status.UNPARSABLE.value: "no verdict",
    POLICY_FAILED: "the policy failed",
}
"""What has failed, by the status of a row that does not count."""


@dataclass(frozen=True, slots=True)
class EvaluatedNumbers:
    """The numbers of an evaluation, the data sets that were read for it, and how long this command took for them."""

    metrics: Metrics
    outcomes: Outcomes
    categories: Categories
    datasets: Sequence[DatasetRead]
    seconds: float
    is_resumed: bool


def summary_of(env: JudgedEnv[Any, Any, Any], title: str, numbers: EvaluatedNumbers, notices: Sequence[str]) -> Summary:
    """Return what the command prints."""
    metrics, (headline, words) = numbers.metrics, env.headline
    selected, finished = numbers.outcomes.rows, numbers.outcomes.finished
    rows = f"{finished:,} of {selected:,}" if finished < selected else f"{selected:,}"
    of = f"{rows} row{'' if selected == 1 else 's'}"
    line = headline_line(metrics, f"eval/{headline}", words, of=of, counted=finished)
    latencies = latency_words(metrics, "eval")
    last_part = "since it was resumed" if numbers.is_resumed else ""
    return Summary(
        title=title,
        headline=line,
        sections=(
            Section("outcomes", outcome_lines(env.outcomes(), metrics, "eval", faults=False)),
            Section("categories", category_lines(numbers.categories)),
            Section("went wrong", _fault_lines(env, numbers), is_alarm=True),
            Section(
                "data", [SummaryLine("", "", "; ".join(map(data_words, numbers.datasets)))] if numbers.datasets else []
            ),
            Section("cost", cost_lines(metrics, "eval")),
            Section(
                "time", [SummaryLine("", duration(numbers.seconds), "; ".join(filter(None, (last_part, latencies))))]
            ),
        ),
        notices=notices,
    )


def data_words(dataset: DatasetRead) -> str:
    """Return which data set was read, and how many rows it has."""
    split = "" if dataset.split is None else f", split {dataset.split}"
    return f"{dataset.name}{split} ({dataset.rows:,} row{'' if dataset.rows == 1 else 's'})"


def category_lines(categories: Categories) -> list[SummaryLine]:
    """A line for each of the largest categories, and one for the others together."""
    shown, others = categories.largest(_MOST_CATEGORIES)
    lines = [SummaryLine(name, f"{found.value:.4f}", f"n = {found.rows:,}") for name, found in shown.items()]
    if others is not None:
        lines.append(
            SummaryLine(f"{len(categories) - len(shown):,} more", f"{others.value:.4f}", f"n = {others.rows:,}")
        )
    return lines


def _fault_lines(env: JudgedEnv[Any, Any, Any], numbers: EvaluatedNumbers) -> list[SummaryLine]:
    """Return what went wrong, each only above 0."""
    metrics, statuses = numbers.metrics, numbers.outcomes.statuses
    lines = []
    for status, words in FAILURE_WORDS.items():
        if statuses[status]:
            how = "count as wrong" if counts(status, policy_is_judge=env.policy_is_judge) else "are left out"
            lines.append(SummaryLine(words, f"{statuses[status]:,}", f"rows {how}"))
    if statuses[Status.INVALID_COMPLETION.value]:
        malformed = statuses[Status.INVALID_COMPLETION.value]
        lines.append(SummaryLine("malformed", f"{malformed:,}", "rows count as wrong: wrong format, refused or empty"))
    for name, words in COMPLETION_FAULTS.items():
        of = metrics.observations.get(f"eval/{name}", 0)
        found = round(metrics.values.get(f"eval/{name}", 0.0) * of)
        if found:
            lines.append(SummaryLine(words, f"{found:,}", f"of {of:,} answers of the policy"))
    suspects = metrics.values.get("eval/judge_injection_suspects", 0)
    if suspects:
        what = "tokens or markers of the judge's prompt, in texts under judgment"
        lines.append(SummaryLine("suspects", f"{suspects:,}", what))
    return [*lines, *outcome_lines(env.outcomes(), metrics, "eval", faults=True)]
