"""What a reader sees of the attacks: the table on the terminal, attack.json, and the page attack.html."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from judgegym.engine.terminal import Table
from judgegym.judges.config.extras import package_version
from judgegym.reports.document import base_style, document, render
from judgegym.validation.attacks.results import AttackResult
from judgegym.validation.attacks.settings import AttackSettings

JSON_FILE, PAGE = "attack.json", "attack.html"
_STYLE = Path(__file__).parent / "static" / "attack.css"
_HEADER = ("attack", "success", "repeat", "above repeat [95 %]", "mean gain", "paid", "p", "finding")
_MOST_SHOWN = 6_000
"""Characters of a text that the page shows."""
_NONE = "–"


@dataclass(frozen=True, slots=True)
class AttackReport:
    """All that the attacks have shown.

    Attributes:
        settings: of the command.
        judge: who judges.
        rows: how many rows were attacked.
        results: of each attack, those that succeed first.
        left_out: names of attacks that are not for this judge or these rows.
        calls: of the judge.
        notes: what a reader of the numbers must know.
    """

    settings: AttackSettings
    judge: str
    rows: int
    results: Sequence[AttackResult]
    left_out: Sequence[str]
    calls: int
    notes: Sequence[str] = ()

    @property
    def successes(self) -> Sequence[AttackResult]:
        """Those that succeed."""
        return [result for result in self.results if result.finding == "succeeds"]

    @property
    def headline(self) -> str:
        """What was found, in a sentence."""
        count = len(self.successes)
        said = "no attack succeeds" if not count else "1 attack succeeds" if count == 1 else f"{count} attacks succeed"
        of = f"of {len(self.results)} on {self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{self.judge}: {said} {of}"

    @property
    def method(self) -> Sequence[str]:
        """How it was measured, in sentences."""
        settings = self.settings
        return (
            f"An attack succeeds on a row if the score is above that of the unattacked twin by more than "
            f"{settings.min_gain:g}; the repeat is a new judgment of the twin, and what it gains is noise.",
            f"It succeeds on the judge if its rate is above the repeat's by more than {settings.max_success:g} "
            f"(McNemar's exact test; Newcombe's paired interval), or if a text in place of the answer is paid more "
            f"than {settings.max_floor:g} on average (Student's t, with a 0 and a 1 added).",
            f"p-values are adjusted over all attacks (Benjamini-Hochberg): of those that are said to succeed, at most "
            f"{settings.false_discoveries:.0%} are expected to be false.",
        )


def table_of(report: AttackReport) -> Table:
    """The table on the terminal."""
    return Table(report.headline, _HEADER, tuple(map(cells, report.results)))


def cells(result: AttackResult) -> tuple[str, ...]:
    """The cells of one attack."""
    rates, interval, counts = result.rates, result.interval, result.counts
    above = _NONE
    if counts is not None and interval is not None:
        above = f"{counts.difference:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"
    return (
        result.attack.name,
        _NONE if rates is None else f"{rates[0]:.2f}",
        _NONE if rates is None else f"{rates[1]:.2f}",
        above,
        _NONE if result.gain is None else f"{result.gain:+.3f}",
        _NONE if result.paid is None else f"{result.paid.mean:.2f}",
        "<.001" if result.p < 0.001 else f"{result.p:.3f}",
        result.finding,
    )


def floor_words(report: AttackReport) -> Iterator[str]:
    """A sentence for each attack that is paid for nothing, the best paid first."""
    floor = report.settings.max_floor
    paid = [each for each in report.successes if each.paid is not None and each.paid.mean > floor]
    for each in sorted(paid, key=lambda one: -(one.paid.mean if one.paid is not None else 0.0)):
        assert each.paid is not None
        yield f"this judge pays {each.paid.mean:.2f} to {each.attack.name}: {each.attack.about}"


def json_of(report: AttackReport) -> Mapping[str, Any]:
    """The content of attack.json."""
    settings = report.settings
    return {
        "judge": report.judge,
        "judge_kind": settings.judge,
        "data": settings.data,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "judgegym_version": package_version(),
        "rows": report.rows,
        "judge_calls": report.calls,
        "min_gain": settings.min_gain,
        "max_success": settings.max_success,
        "max_floor": settings.max_floor,
        "false_discoveries": settings.false_discoveries,
        "seed": settings.seed,
        "succeeded": [result.attack.name for result in report.successes],
        "left_out": list(report.left_out),
        "notes": list(report.notes),
        "method": list(report.method),
        "attacks": [_json(result) for result in report.results],
    }


def _json(result: AttackResult) -> Mapping[str, Any]:
    rates = result.rates
    return {
        **result.attack.model_dump(mode="json", exclude={"transform"}),
        "transform": result.attack.transform.model_dump(mode="json", exclude_none=True),
        "finding": result.finding,
        "rows": result.rows,
        "failed": result.failed,
        "success_rate": None if rates is None else rates[0],
        "repeat_rate": None if rates is None else rates[1],
        "above_repeat": None if result.counts is None else result.counts.difference,
        "above_repeat_interval": None if result.interval is None else [result.interval.low, result.interval.high],
        "counts": None if result.counts is None else result.counts._asdict(),
        "mean_gain": result.gain,
        "paid": None if result.paid is None else asdict(result.paid),
        "p_adjusted": result.p,
        "worst_rows": [asdict(row) for row in result.worst],
    }


def html(report: AttackReport) -> Iterator[bytes]:
    """Write the page, part by part: no script, no network, every text escaped."""
    body = render(
        "attack.html",
        report=report,
        header=_HEADER,
        rows=[cells(result) for result in report.results],
        floor=list(floor_words(report)),
        shortened=_shortened,
    )
    yield from document(title=report.headline, body=body, styles=[base_style(), _STYLE.read_text("utf-8")], scripts=[])


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text):,} characters)"
