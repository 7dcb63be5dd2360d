"""What a reader sees of judges made from recorded runs: a table on the terminal, JSON, and a page with a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judgegym.engine.terminal.output import Table, say, show_table
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

    def table(self, shown: Sequence[ReplayedJudge]) -> Table:
        """Return the table of some judges."""
        title = f"{len(self.candidates):,} judges on {self.rows:,} recorded rows: {self.value}"
        header = "judge", "value", "95 %", f"cost ({self.cost_unit})", "escalated", "front"
        return Table(title, header, tuple(map(_cells, shown)))

    def show(self) -> None:
        """Print single judges, the front, and what was asked for by name; the page has all."""
        few = len(self.candidates) <= 20
        show_table(self.table([one for one in self.candidates if few or one.is_on_front or one.kind == "single"]))
        for line in self.said:
            say(line)

    def html(self) -> Iterator[bytes]:
        """Write the page, part by part: no script, no network, every text escaped."""
        costs, values = [each.cost for each in self.candidates], [each.value for each in self.candidates]
        ends = {"least_cost": min(costs), "most_cost": max(costs), "least": min(values), "most": max(values)}
        across = np.interp(costs, (min(costs), max(costs)), (48, _WIDTH - 14)).round(1).tolist()
        up = np.interp(values, (min(values), max(values)), (_HEIGHT - 40, 20)).round(1).tolist()
        points, size = [*zip(across, up, self.candidates, strict=True)], {"width": _WIDTH, "height": _HEIGHT}
        table = self.table(self.candidates)
        body = render("replay.html", report=self, table=table, points=points, **size, **ends)
        styles = [base_style(), _STYLE.read_text("utf-8")]
        yield from document(title=table.title, body=body, styles=styles, scripts=[])


def _cells(each: ReplayedJudge) -> tuple[str, ...]:
    escalated = "" if each.escalated is None else f"{each.escalated:.1%}"
    interval = f"{each.interval.low:.3f} to {each.interval.high:.3f}"
    return each.name, f"{each.value:.3f}", interval, f"{each.cost:.3g}", escalated, "yes" if each.is_on_front else ""


def jury_words(each: ReplayedJudge, value: str) -> str:
    """Say whether a jury beats its best member, by how much, with what certainty."""
    gain, at_least = each.gain or (0.0, 0.0)
    by = f"{100 * gain:+.1f} points of {value}, at least {100 * at_least:+.1f} with 90% certainty"
    if at_least > 0.0:
        return f"{each.name} beats its best member, {each.best}: {by}."
    return f"{each.name} is not known to beat its best member, {each.best}: {by}. {each.best} alone costs less."
