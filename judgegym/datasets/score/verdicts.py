"""Metrics and tables of a run by aspect, criterion and tag.

Guarantees: every verdict counts, even if another question of the response has none and the response
so has no score. A missing verdict is not a number. Metric names are those of the environments
aspect_critique and rubric_checklist. If rows have different questions, there are metrics by tag,
but none by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from judgegym.datasets.rows.questions import Questions, named_values
from judgegym.engine.metrics import MetricAggregator, Metrics, slug
from judgegym.engine.records import Sample
from judgegym.engine.terminal import Table
from judgegym.engine.terminal.summary import Section, SummaryLine, format_interval
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.naming import MetricNames
from judgegym.statistics import percent

MOST_WITH_INTERVAL = 20
"""The most aspects or criteria with an interval, which takes sixteen bytes a row and name."""
_MOST_LINES = 20
"""The most lines of a table on the terminal; the page has all."""
_NO_VERDICT = "no response has a verdict on it"


class Ratio(Protocol):
    """A ratio to which tasks contribute."""

    def add(self, task: int, total: float, weight: float = 1.0) -> None:
        """Add what a task contributes."""

    def record(self, metrics: MetricAggregator, name: str, prompts: array[int]) -> None:
        """Record the ratio."""


class PlainRatio:
    """A ratio without an interval."""

    def __init__(self) -> None:
        """Begin without an observation."""
        self.total = self.weight = 0.0

    def add(self, task: int, total: float, weight: float = 1.0) -> None:
        """Add what a task contributes."""
        self.total += total
        self.weight += weight

    def record(
        self, metrics: MetricAggregator, name: str, prompts: array[int] | None = None
    ) -> None:
        """Record the ratio, if there is an observation."""
        if self.weight:
            metrics.ratio(name, self.total, self.weight)


class VerdictNumbers:
    """Collects verdicts and the scores of tags, response by response."""

    def __init__(
        self, questions: Questions, new_ratio: Callable[[], Ratio], most_tags: int
    ) -> None:
        """Begin without a response.

        Args:
            questions: the questions of all rows.
            new_ratio: makes a ratio with an interval.
            most_tags: the most tags with a metric; those with the most responses are kept.
        """
        self._questions, self._most_tags = questions, most_tags
        names = questions.shared
        has_intervals = len(questions.shared) <= MOST_WITH_INTERVAL
        self._rates: dict[str, Ratio] = {
            name: new_ratio() if has_intervals else PlainRatio() for name in names
        }
        self._yes = {name: PlainRatio() for name in names}
        self._tags: dict[str, PlainRatio] = {}
        self._invalid = 0

    def add(self, task: int, sample: Sample[Any]) -> None:
        """Add a response; an empty or malformed one passes no aspect."""
        is_aspect = self._questions.kind == "aspect"
        if sample.status == Status.INVALID_COMPLETION.value and is_aspect:
            self._invalid += 1
            for rate in self._rates.values():
                rate.add(task, 0.0)
        elif sample.detail is not None:
            values = named_values(sample.detail.verdicts, sample.detail.components)
            for name, points in self._questions.shared.items():
                value = values.get(name)
                if value is not None:
                    self._rates[name].add(task, 1.0 - value if is_aspect and points < 0 else value)
                    self._yes[name].add(task, value)
            for tag, score in sample.detail.tags.items():
                self._tags.setdefault(tag, PlainRatio()).add(task, score)

    @property
    def _largest_tags(self) -> Sequence[tuple[str, PlainRatio]]:
        return sorted(self._tags.items(), key=lambda item: (-item[1].weight, item[0]))[
            : self._most_tags
        ]

    def record(self, metrics: MetricAggregator, prompts: array[int]) -> None:
        """Record the metrics; intervals are over `prompts`, one for each task."""
        for name, rate in self._rates.items():
            first, *others = metric_names(self._questions, name)
            rate.record(metrics, first, prompts)
            for other_metric in others:
                self._yes[name].record(metrics, other_metric)
            metrics.expect(_NO_VERDICT, first, *others)
        slugs = MetricNames(self._tags)
        for tag, ratio in self._largest_tags:
            ratio.record(metrics, f"tag_score_{slugs(tag)}")

    def tables(self, metrics: Metrics) -> Iterator[Table]:
        """Yield the page's tables by aspect or criterion and by tag, without empty entries."""
        is_aspect = self._questions.kind == "aspect"
        rows = []
        for name, points in self._questions.shared.items():
            metric = f"eval/{metric_names(self._questions, name)[0]}"
            yes = self._yes[name]
            if metric in metrics.values and yes.weight:
                rate_or_points = percent(yes.total / yes.weight) if is_aspect else f"{points:g}"
                interval = format_interval(metrics, metric, "share").removeprefix("95 %: ")
                counted = f"{yes.weight + self._invalid:,.0f}"
                rows.append(
                    (name, rate_or_points, percent(metrics.values[metric]), interval, counted)
                )
        header = ("aspect", "yes", "passes") if is_aspect else ("criterion", "points", "met")
        if rows:
            yield Table(
                "Aspects" if is_aspect else "Criteria", (*header, "95 %", "responses"), tuple(rows)
            )
        tags = [
            (tag, f"{ratio.total / ratio.weight:.4f}", f"{ratio.weight:,.0f}")
            for tag, ratio in self._largest_tags
        ]
        if tags:
            yield Table("Tags", ("tag", "score", "responses"), tuple(tags))


def metric_names(questions: Questions, name: str) -> tuple[str, ...]:
    """Return the metric names of an aspect (passes, yes) or a criterion (met)."""
    if questions.kind == "aspect":
        return f"pass_rate_{slug(name)}", f"score_{slug(name)}"
    return (f"met_rate_{slug(name)}",)


def verdict_sections(tables: Sequence[Table]) -> Iterator[Section]:
    """Yield the same tables for the terminal: name, rate or score, and interval of each line."""
    for table in tables:
        value = 1 if table.title == "Tags" else 2
        lines = []
        for row in table.rows[:_MOST_LINES]:
            interval = f"95 %: {row[3]}" if value == 2 and row[3] else ""
            lines.append(
                SummaryLine(
                    row[0], row[value], ", ".join(filter(None, (interval, f"{row[-1]} responses")))
                )
            )
        hidden = len(table.rows) - len(lines)
        if hidden:
            lines.append(SummaryLine("…", f"{hidden:,}", "more, in metrics.json and on the page"))
        yield Section(f"{table.title.lower()}: {table.header[value]}", lines)
