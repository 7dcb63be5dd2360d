"""What a reader sees of judges made from recorded runs: a table on the terminal, JSON, and a page with a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from judgegym.engine.terminal import Table
from judgegym.reports.document import base_style, document, render
from judgegym.validation.replay.candidates import ReplayedJudge

_STYLE = Path(__file__).parent / "static" / "replay.css"
_WIDTH, _HEIGHT = 640, 360
HARM = (
    "A majority harms where members are unequal, and Dawid-Skene where they err together: both are worth what they are "
    "measured to be, and no more."
)
SELECTION = "The best of many candidates is optimistic: confirm what you choose on other rows."


@dataclass(frozen=True)
class ReplayReport:
    """All that was measured.

    Attributes:
        value: what is measured, in words.
        cost_unit: of costs.
        rows: how many rows.
        left_out: rows that could not be compared.
        candidates: all judges, the cheapest first.
        said: what follows, in sentences.
    """

    value: str
    cost_unit: str
    rows: int
    left_out: int
    candidates: Sequence[ReplayedJudge]
    said: Sequence[str]

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        return f"{len(self.candidates):,} judges on {self.rows:,} recorded rows: {self.value}"

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return "judge", "value ± 95 %", f"cost ({self.cost_unit})", "escalated", "front"

    def table(self) -> Table:
        """The table on the terminal: single judges, the front, and what was asked for by name; the page has all."""
        few = len(self.candidates) <= 20
        shown = [each for each in self.candidates if few or each.is_on_front or each.kind == "single"]
        return Table(self.title, self.header, tuple(map(cells, shown)))

    def to_json(self) -> Mapping[str, object]:
        """All numbers."""
        return asdict(self)


def cells(each: ReplayedJudge) -> tuple[str, ...]:
    """The cells of one judge."""
    escalated = "" if each.escalated is None else f"{each.escalated:.1%}"
    value = f"{each.value:.3f} ± {1.96 * each.error:.3f}"
    return each.name, value, f"{each.cost:.3g}", escalated, "yes" if each.is_on_front else ""


def jury_words(each: ReplayedJudge, value: str) -> str:
    """Say whether a jury beats its best member, by how much, with what certainty."""
    gain, at_least = each.gain or (0.0, 0.0)
    by = f"{100 * gain:+.1f} points of {value}, at least {100 * at_least:+.1f} with 90% certainty"
    if at_least > 0.0:
        return f"{each.name} beats its best member, {each.best}: {by}."
    return f"{each.name} is not known to beat its best member, {each.best}: {by}. {each.best} alone costs less."


def html(report: ReplayReport) -> Iterator[bytes]:
    """Write the page, part by part: no script, no network, every text escaped."""
    costs, values = [each.cost for each in report.candidates], [each.value for each in report.candidates]
    least_cost, most_cost, least, most = min(costs), max(costs), min(values), max(values)

    def at(value: float, low: float, high: float) -> float:
        return (value - low) / (high - low) if high > low else 0.5

    points = [
        (
            round(48 + (_WIDTH - 62) * at(each.cost, least_cost, most_cost), 1),
            round(_HEIGHT - 40 - (_HEIGHT - 60) * at(each.value, least, most), 1),
            each,
        )
        for each in report.candidates
    ]
    numbers = {"least_cost": least_cost, "most_cost": most_cost, "least": least, "most": most}
    rows = [cells(each) for each in report.candidates]
    body = render(
        "replay.html",
        report=report,
        header=report.header,
        rows=rows,
        points=points,
        width=_WIDTH,
        height=_HEIGHT,
        **numbers,
    )
    yield from document(title=report.title, body=body, styles=[base_style(), _STYLE.read_text("utf-8")], scripts=[])
