"""Reports of attacks: the table on the terminal, attack.json, and the page attack.html."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from judgegym.engine.terminal.output import Table, format_count
from judgegym.judges.config.extras import package_version
from judgegym.reports.document import document, render
from judgegym.statistics import percent
from judgegym_trials.attacks.results import FALSE_DISCOVERIES, AttackResult
from judgegym_trials.attacks.settings import AttackSettings

JSON_FILE, PAGE = "attack.json", "attack.html"
_STATIC = Path(__file__).parent / "static"
_HEADER = (
    "attack",
    "success",
    "repeat",
    "above repeat [95 %]",
    "mean gain",
    "paid",
    "p",
    "finding",
)
_MOST_SHOWN = 6_000
"""Maximum number of characters of a text on the page."""
_NONE = "–"


@dataclass(frozen=True, slots=True)
class AttackReport:
    """Results of all attacks, with their settings.

    Attributes:
        settings: the command's settings.
        judge: the judge's name.
        rows: number of attacked rows.
        results: the result of each attack; those that succeed first.
        left_out: names of attacks that do not apply to this judge or these rows.
        judge_calls: number of judge calls.
        notes: remarks that a reader of the numbers needs.
    """

    settings: AttackSettings
    judge: str
    rows: int
    results: Sequence[AttackResult]
    left_out: Sequence[str]
    judge_calls: int
    notes: Sequence[str] = ()

    @property
    def successes(self) -> Sequence[AttackResult]:
        """The attacks that succeed."""
        return [result for result in self.results if result.finding == "succeeds"]

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        count = len(self.successes)
        if not count:
            finding = "no attack succeeds"
        elif count == 1:
            finding = "1 attack succeeds"
        else:
            finding = f"{count} attacks succeed"
        attack_count = len(self.results)
        rows = format_count(self.rows, "row")
        return f"{self.judge}: {finding} of {attack_count} on {rows}"

    @property
    def method(self) -> Sequence[str]:
        """Sentences about how it was measured."""
        settings = self.settings
        false_share = percent(FALSE_DISCOVERIES, 0)
        return (
            "An attack succeeds on a row if the score is above that of the unattacked twin by more "
            f"than {settings.min_gain:g}; the repeat is a new judgment of the twin, and what it "
            "gains is noise.",
            "It succeeds on the judge if its rate is above the repeat's by more than "
            f"{settings.max_success:g} (McNemar's exact test; Newcombe's paired interval), or if a "
            f"text in place of the answer is paid more than {settings.max_floor:g} on average "
            "(Student's t, with a 0 and a 1 added).",
            "p-values are adjusted over all attacks (Benjamini-Hochberg): of those that are said "
            f"to succeed, at most {false_share} are expected to be false.",
        )


def make_table(report: AttackReport) -> Table:
    """Return the table for the terminal."""
    return Table(report.headline, _HEADER, tuple(map(format_cells, report.results)))


def format_cells(result: AttackResult) -> tuple[str, ...]:
    """Return an attack's cells in the table."""
    of_twins = (_NONE, _NONE, _NONE)
    if (counts := result.counts) is not None:
        interval, (attack, repeat) = counts.interval(), counts.rates
        above = f"{counts.difference:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"
        of_twins = (f"{attack:.2f}", f"{repeat:.2f}", above)
    gain, paid, p = _NONE, _NONE, f"{result.p:.3f}"
    if result.gain is not None:
        gain = f"{result.gain:+.3f}"
    if result.paid is not None:
        paid = f"{result.paid.mean:.2f}"
    if result.p < 0.001:
        p = "<.001"
    return (result.attack.name, *of_twins, gain, paid, p, result.finding)


def list_paid_attacks(report: AttackReport) -> Iterator[str]:
    """Yield a sentence for each attack that gets a score for no answer, the highest paid first."""
    paid = [
        (result.paid.mean, result.attack) for result in report.successes if result.paid is not None
    ]
    for mean, attack in sorted(paid, key=lambda payment: -payment[0]):
        if mean > report.settings.max_floor:
            yield f"this judge pays {mean:.2f} to {attack.name}: {attack.about}"


def dump_report(report: AttackReport) -> Mapping[str, Any]:
    """Return the content of attack.json."""
    thresholds = {"min_gain", "max_success", "max_floor", "seed", "data"}
    return {
        "judge": report.judge,
        "judge_kind": report.settings.judge,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "judgegym_version": package_version(),
        **report.settings.model_dump(mode="json", include=thresholds),
        "false_discoveries": FALSE_DISCOVERIES,
        **{
            name: getattr(report, name)
            for name in ("rows", "judge_calls", "left_out", "notes", "method")
        },
        "succeeded": [result.attack.name for result in report.successes],
        "attacks": [_result_json(result) for result in report.results],
    }


def _result_json(result: AttackResult) -> Mapping[str, Any]:
    counts = result.counts
    success, repeat = (None, None) if counts is None else counts.rates
    return {
        **result.attack.model_dump(mode="json", exclude_none=True),
        **{name: getattr(result, name) for name in ("finding", "rows", "failed")},
        "success_rate": success,
        "repeat_rate": repeat,
        "mean_gain": result.gain,
        "p_adjusted": result.p,
        "above_repeat": None if counts is None else counts.difference,
        "above_repeat_interval": None if counts is None else astuple(counts.interval()),
        "counts": None if counts is None else counts._asdict(),
        "paid": None if result.paid is None else asdict(result.paid),
        "worst_rows": [asdict(row) for row in result.worst],
    }


def html(report: AttackReport) -> Iterator[bytes]:
    """Yield the page, part by part: no script, no network, every text escaped."""
    rows = [format_cells(result) for result in report.results]
    floor = [*list_paid_attacks(report)]
    body = render(
        _STATIC / "attack.html",
        report=report,
        header=_HEADER,
        rows=rows,
        floor=floor,
        shortened=_shorten,
    )
    yield from document(title=report.headline, body=body, styles=[_STATIC / "attack.css"])


def _shorten(text: str) -> str:
    if len(text) <= _MOST_SHOWN:
        return text
    count = len(text)
    return f"{text[:_MOST_SHOWN]}… ({count:,} characters)"
