"""The summary of a run: the headline, then sections of lines with label, value and remark.

Guarantees: no line is wider than the terminal; elsewhere every line is whole, with at least two
spaces between its columns, so that programs can split it. Texts of data sets are shown without
control characters.

The module also prints the table of all metrics, and formats outcomes, costs and numbers. An
environment declares which metrics it shows besides the headline (`Outcome`), so that nothing is
guessed from names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.engine.metrics import Metrics
from judgegym.engine.terminal.output import UNKNOWN, console, format_dollars, say
from judgegym.statistics import percent

Unit = Literal["share", "number", "count"]

ROLES = ("judge", "policy", "user")
"""Roles whose calls are counted, which begin their metrics' names; a user is optional."""
COMPLETION_FAULTS = {
    "truncated_response_rate": "cut off",
    "refused_response_rate": "refused",
    "empty_response_rate": "empty",
    "short_response_rate": "short",
}
"""Rates of faults in a policy's completions, in every environment, with their labels."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line of the table that a command prints.

    Attributes:
        words: the line's label.
        metrics: the short names of its metrics with their labels; a single metric's label may be
            empty.
        unit: the unit of its values; a share is shown as a percentage.
        is_fault: whether it counts faults, and is shown only above 0.
    """

    words: str
    metrics: Mapping[str, str]
    unit: Unit = "share"
    is_fault: bool = False

    @classmethod
    def from_metric(
        cls, words: str, metric: str, *, unit: Unit = "share", is_fault: bool = False
    ) -> Outcome:
        """Make a line of one metric."""
        return cls(words, {metric: ""}, unit, is_fault)


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_GAP = "  "
_NARROWEST_REMARK, _NARROWEST_LABEL = 24, 9


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """A line: label, value and remark."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title; a single line without a label stands beside the title.

    Attributes:
        title: the common title of the lines.
        lines: the lines; a section without any is not shown.
        is_alarm: whether something went wrong.
    """

    title: str
    lines: Sequence[SummaryLine]
    is_alarm: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary that a command prints.

    Attributes:
        title: the command that was run.
        headline: the headline metric.
        sections: the other lines.
        notices: sentences that a reader of the numbers must know.
    """

    title: str
    headline: SummaryLine
    sections: Sequence[Section]
    notices: Sequence[str] = ()


def show_summary(summary: Summary) -> None:
    """Print a summary on standard output."""
    from rich.cells import cell_len, set_cell_size
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    rows = [tuple(_CONTROLS.sub(" ", cell) for cell in row) for row in _rows(summary)]
    labels, values = (max(cell_len(row[column]) for row in rows) for column in (0, 1))
    title = _CONTROLS.sub(" ", summary.title)
    if not out.is_terminal:
        say(title)
        for label, value, remark, _ in rows:
            padded = set_cell_size(label, labels)
            say(f"{padded}{_GAP}{value:>{values}}{_GAP}{remark}".rstrip())
        for notice in summary.notices:
            say(notice)
        return
    say(wrap_text(title, out.width))
    grid = RichTable.grid(padding=(0, len(_GAP), 0, 0))
    room = out.width - values - 2 * len(_GAP) - _NARROWEST_REMARK
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(room, _NARROWEST_LABEL))
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(overflow="fold")
    for label, value, remark, style in rows:
        grid.add_row(
            Text(label, style=style),
            Text(value, style="bold" if style == "bold" else ""),
            Text(remark),
        )
    out.print(grid)
    for notice in summary.notices:
        say(wrap_text(notice, out.width))


def wrap_text(sentence: str, width: int) -> str:
    """Wrap a sentence between words; long words, such as paths, stay whole for copying."""
    lines = sentence.splitlines() or [""]
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines
    )


def _rows(summary: Summary) -> Iterator[tuple[str, str, str, str]]:
    """Yield label, value, remark and style of each line."""
    yield summary.headline.label, summary.headline.value, summary.headline.remark, "bold"
    for section in summary.sections:
        style = "dim"
        if section.is_alarm:
            style = "red"
        if len(section.lines) == 1 and not section.lines[0].label:
            yield section.title, section.lines[0].value, section.lines[0].remark, style
        elif section.lines:
            yield section.title, "", "", style
            for line in section.lines:
                yield f"{_GAP}{line.label}", line.value, line.remark, ""


_VALUE_WIDTH = 30


def show_all_metrics(title: str, metrics: Metrics, notes: Mapping[str, str]) -> None:
    """Print the table of all metrics, and the metrics that are left out.

    Args:
        title: the command that was run.
        metrics: the metrics.
        notes: explanations of metrics with misleading names, by full name.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console()
    if not out.is_terminal and metrics.values:  # whoever reads it from a file wants the names whole
        noted = max(map(len, notes.values()), default=0)
        out.width = max(out.width, max(map(len, metrics.values)) + _VALUE_WIDTH + noted)
    drawn = RichTable(title=Text(title), title_justify="left")
    drawn.add_column("metric", overflow="fold")
    drawn.add_column("value", justify="right")
    if notes.keys() & metrics.values.keys():
        drawn.add_column("", overflow="fold")
    for name, value in metrics.values.items():
        cells = [name, f"{value:.4f}" if isinstance(value, float) else str(value)]
        if name in notes:
            cells.append(notes[name])
        drawn.add_row(*cells)
    for name in metrics.unknown:
        drawn.add_row(name, "unknown")
    out.print(drawn)
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        verb = "is" if len(names) == 1 else "are"
        listed = ", ".join(names)
        say(f"{listed} {verb} left out: {reason}")


_NONE = "–"


def headline_line(
    metrics: Metrics, name: str, words: str, *, basis: str, counted: int
) -> SummaryLine:
    """Return the line of the headline metric, with its interval, or why it has no value."""
    value = metrics.values.get(name)
    if value is None:
        usual = "no row counts"
        if counted:
            usual = "no row adds to it in record_metrics"
        reason = metrics.left_out.get(name, usual)
        return SummaryLine(words, _NONE, f"{name} is left out: {reason}")
    interval = format_interval(metrics, name)
    return SummaryLine(words, f"{value:.4f}", ", ".join(filter(None, (interval, basis, name))))


def format_interval(metrics: Metrics, name: str, unit: Unit = "number") -> str:
    """Format the 95 % interval of a metric; empty without one."""
    low, high = (metrics.values.get(f"{name}_ci_{end}") for end in ("low", "high"))
    if low is not None and metrics.observations.get(name) == 1:
        return "one observation, which has no interval"  # in files both ends are the value
    if low is None or high is None:
        return ""
    shown_low, shown_high = format_number(low, unit), format_number(high, unit)
    return f"95 %: {shown_low} to {shown_high}"


def outcome_lines(
    outcomes: Sequence[Outcome], metrics: Metrics, prefix: str, *, faults: bool
) -> list[SummaryLine]:
    """Return the lines of outcomes with a value, or a reason for none; faults include suspects.

    Args:
        outcomes: what the environment declares.
        metrics: the metrics.
        prefix: `eval` or `train`.
        faults: whether to show faults, or the other outcomes.
    """
    lines = [
        _outcome_line(outcome, metrics, prefix)
        for outcome in outcomes
        if outcome.is_fault == faults
    ]
    suspects = metrics.values.get(f"{prefix}/judge_injection_suspects", 0) if faults else 0
    remark = "tokens or markers of the judge's prompt, in texts under judgment"
    suspects_line = None
    if suspects:
        suspects_line = SummaryLine("suspects", f"{suspects:,}", remark)
    return [line for line in (suspects_line, *lines) if line is not None]


def _outcome_line(outcome: Outcome, metrics: Metrics, prefix: str) -> SummaryLine | None:
    names = {f"{prefix}/{name}": label for name, label in outcome.metrics.items()}
    values = {name: metrics.values[name] for name in names if name in metrics.values}
    if outcome.is_fault and not any(values.values()):
        return None
    if not values:
        reason = next((metrics.left_out[name] for name in names if name in metrics.left_out), None)
        if reason is None:
            return None
        return SummaryLine(outcome.words, _NONE, f"left out: {reason}")
    if len(names) > 1:
        parts = []
        for name, value in values.items():
            number = format_number(value, outcome.unit)
            parts.append(f"{names[name]} {number}")
        return SummaryLine(outcome.words, "", ", ".join(parts))
    ((name, value),) = values.items()
    return SummaryLine(
        outcome.words,
        format_number(value, outcome.unit),
        format_interval(metrics, name, outcome.unit),
    )


def format_number(value: float, unit: Unit) -> str:
    """Format a value in its unit."""
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "share":
        return percent(value)
    return f"{value:.4f}"


def cost_lines(metrics: Metrics, prefix: str) -> list[SummaryLine]:
    """Return a line for each role that was asked: cost, calls, tokens, cached share."""
    lines = []
    for role in ROLES:
        values = {
            name.removeprefix(f"{prefix}/{role}_"): value
            for name, value in metrics.values.items()
            if name.startswith(f"{prefix}/{role}_")
        }
        is_unknown = f"{prefix}/{role}_cost_usd" in metrics.unknown
        if not is_unknown and "cost_usd" not in values:
            continue
        calls = _format_counts(values.get("calls"), values.get("cached_calls"), "calls")
        requests = values.get("requests")  # retries included, and none for a call from the cache
        if requests is not None and requests != values.get("calls", 0) - values.get(
            "cached_calls", 0
        ):
            calls += f" in {requests:,.0f} requests"
        prompt = _format_counts(
            values.get("prompt_tokens"), values.get("cached_prompt_tokens"), "tokens in"
        )
        out = ""
        if "completion_tokens" in values:
            out = f"{values['completion_tokens']:,.0f} out"
        cost = UNKNOWN if is_unknown else format_dollars(values["cost_usd"])
        lines.append(SummaryLine(role, cost, ", ".join(filter(None, (calls, prompt, out)))))
    return lines


def _format_counts(count: float | None, cached: float | None, noun: str) -> str:
    if count is None:
        return ""
    if cached:
        return f"{count:,.0f} {noun} ({cached:,.0f} cached)"
    return f"{count:,.0f} {noun}"


def format_latencies(metrics: Metrics, prefix: str) -> str:
    """Describe the latency of each role's calls; empty if there were none."""
    parts = []
    for role in ROLES:
        mean, p95 = (
            metrics.values.get(f"{prefix}/{role}_latency_{name}_s") for name in ("mean", "p95")
        )
        if mean is not None and p95 is not None:
            parts.append(f"{role} {mean:.2f} s (p95 {p95:.2f})")
        elif mean is not None:
            parts.append(f"{role} {mean:.2f} s")
    if parts:
        return "a call: " + ", ".join(parts)
    return ""
