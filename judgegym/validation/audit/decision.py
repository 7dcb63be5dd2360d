"""Decide each check: it passes, fails or is underpowered, and then it takes more rows.

*fails*: the value is beyond the threshold, by a test whose p-value is corrected for all checks that have a threshold
(Holm), at `alpha`: a judge without any fault is accused by some check in at most that share of audits, so the false
discovery rate is no larger. *passes*: the whole interval is on the good side of the threshold. *underpowered*: neither;
then the result has the number of rows of this kind that a decision takes:

* with the estimate on the bad side of the threshold, until a fault that lies `margin` beyond it fails;
* with the estimate on the good side, until a judge that is `margin` better (at best without any effect) passes;
* with that many rows and still no decision the value lies near the threshold: the number is for the value as measured.

All three with probability `power`. The first two depend on how much rows vary, and not on the estimate itself, which
scatters with few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from judgegym.statistics.agreement import Interval
from judgegym.statistics.clustered import ClusteredEstimate
from judgegym.statistics.paired import holm
from judgegym.validation.audit.checks import CHECKS, Unit
from judgegym.validation.audit.settings import AuditSettings, Threshold

Word = Literal["passes", "fails", "underpowered", "shown", "not measured"]
_LIMITS = {"at_least": "at least ", "at_most": "at most ", "within": "not beyond ±"}
FEWEST_CLUSTERS = 10
"""With fewer independent rows no check passes or fails."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What an audit says of one check.

    Attributes:
        name: of the check, as in the settings.
        title: its words in a table.
        unit: of the value, the interval and the threshold.
        word: the decision; `shown` without a threshold.
        value: the effect; `None` if it is not measured.
        interval: its interval at the audit's level.
        side: `at_least`, `at_most` or `within`; empty without a threshold.
        threshold: the threshold.
        p: the p-value of "it is on the good side of the threshold".
        p_corrected: the same, corrected for all tests of the audit.
        rows_needed: how many rows it takes to decide; `None` if it is decided, or if no number of rows would.
        sentence: all of this in words; or why it is not measured.
    """

    name: str
    title: str
    unit: Unit
    word: Word
    value: float | None = None
    interval: Interval | None = None
    side: str = ""
    threshold: float | None = None
    p: float | None = None
    p_corrected: float | None = None
    rows_needed: int | None = None
    sentence: str = ""


def decide(estimates: Mapping[str, ClusteredEstimate | str], settings: AuditSettings, rows: int) -> list[CheckResult]:
    """Say of each estimate whether it passes.

    Args:
        estimates: by check, or why there is none.
        settings: the thresholds.
        rows: of how many rows they are.
    """
    tested = {
        name: _p_value(estimate, threshold)
        for name, estimate in estimates.items()
        if isinstance(estimate, ClusteredEstimate) and (threshold := settings.checks.get(name)) and threshold.side
    }
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [_result(name, estimate, settings, rows, tested, corrected) for name, estimate in estimates.items()]


def _result(
    name: str,
    estimate: ClusteredEstimate | str,
    settings: AuditSettings,
    rows: int,
    tested: Mapping[str, float],
    corrected: Mapping[str, float],
) -> CheckResult:
    """The result of a check, given the p-values of all that are tested."""
    check = CHECKS[name]
    if isinstance(estimate, str):
        return CheckResult(name, check.title, check.unit, "not measured", sentence=estimate)
    interval = estimate.interval(settings.level)
    if check.unit == "number":  # coefficients of agreement, and squared errors of probabilities
        interval = Interval(max(-1.0, interval.low), min(1.0, interval.high))
    says = f"{check.says.format(value_text(estimate.value, check.unit))} ({100 * settings.level:g} %: "
    says = f"{says[0].upper()}{says[1:]}{interval_text(interval, check.unit)})"
    found = CheckResult(name, check.title, check.unit, "shown", estimate.value, interval, sentence=f"{says}.")
    if name not in tested:
        return found
    threshold, needed, why = settings.checks[name], None, ""
    is_inside = threshold.tolerates(interval.low) and threshold.tolerates(interval.high)
    word: Word = "fails" if corrected[name] <= settings.alpha else "passes" if is_inside else "underpowered"
    if estimate.clusters < FEWEST_CLUSTERS:
        word = "underpowered"
    if word == "underpowered":
        needed, why = _rows_needed(estimate, threshold, settings, rows, len(tested))
    limit = f"{_LIMITS[threshold.side]}{value_text(threshold.limit, check.unit, signed=False)}"
    return replace(
        found,
        word=word,
        side=threshold.side,
        threshold=threshold.limit,
        p=tested[name],
        p_corrected=corrected[name],
        rows_needed=needed,
        sentence=f"{says}; wanted: {limit}.{why}",
    )


def _p_value(estimate: ClusteredEstimate, threshold: Threshold) -> float:
    """The p-value of "the true value is on the good side of the threshold"."""
    if threshold.side == "at_least":
        return estimate.p_below(threshold.limit)
    return (estimate.p_outside if threshold.side == "within" else estimate.p_above)(threshold.limit)


def _rows_needed(
    estimate: ClusteredEstimate, threshold: Threshold, settings: AuditSettings, rows: int, tests: int
) -> tuple[int | None, str]:
    """How many rows it takes to decide, and the words for that.

    Of an effect that is wanted within bounds, the size is compared with the bound.
    """
    limit, is_within = threshold.limit, threshold.side == "within"
    is_good = threshold.tolerates(estimate.value)
    truth = limit + threshold.margin * (1 if is_good is (threshold.side == "at_least") else -1)
    power, alpha = settings.power, (1 - settings.level) / 2 if is_good else settings.alpha / tests
    if is_within and truth <= 0:
        truth, power = 0.0, (1 + power) / 2  # without an effect, neither bound may be reached
    if estimate.trials is not None:
        truth = min(1.0, max(0.0, truth))
    if abs(truth - limit) < 1e-9:
        return None, " More rows cannot decide: the threshold is at the end of the scale."
    needed = estimate.rows_to_decide(truth, limit, rows=rows, alpha=alpha, power=power)
    if needed > rows:
        better = "without any effect" if truth == 0.0 and is_within else "without this fault"
        what = f"a judge {better} passes" if is_good else "a fault of this kind is found"
        return needed, f" With {rows:,} rows nothing is decided; {what} with about {needed:,}."
    value = abs(estimate.value) if is_within else estimate.value
    if abs(value - limit) < 1e-9:
        return None, " The value equals the threshold, so more rows cannot decide."
    needed = max(rows + 1, estimate.rows_to_decide(value, limit, rows=rows, alpha=alpha, power=settings.power))
    return needed, f" The value is near the threshold; as it is measured, about {needed:,} rows decide."


def value_text(value: float, unit: Unit, *, signed: bool = True) -> str:
    """A value as people read it."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "points":
        return f"{100 * value:{'+' if signed else ''}.1f} points".replace("-", "−")
    if unit == "dollars":
        return f"${value:.4f}"
    return f"{value:.2f} s" if unit == "seconds" else f"{value:.3f}".replace("-", "−")


def interval_text(interval: Interval, unit: Unit) -> str:
    """An interval as people read it, with its unit once."""
    low, high = (value_text(each, unit) for each in (interval.low, interval.high))
    return f"{low.removesuffix(' %').removesuffix(' points').removesuffix(' s')} to {high}"
