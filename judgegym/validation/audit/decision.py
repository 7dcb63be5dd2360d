"""Say of each check one of three words, and how many rows it takes where nothing is decided.

*fails*: the value is beyond the threshold, by a test whose p-value is corrected for all checks that have a threshold
(Holm), at `alpha`: a judge without any fault is accused by some check in at most that share of audits, so the false
discovery rate is no larger. *passes*: the whole interval is on the good side of the threshold. *underpowered*: neither;
then it is said how many rows it takes, if they are like these:

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
FEWEST_CLUSTERS = 10
"""With fewer independent rows no check passes or fails."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What an audit says of one check.

    Attributes:
        name: of the check, as in the settings.
        title: its words in a table.
        unit: of the value, the interval and the threshold.
        word: what is said of it; `shown` without a threshold.
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
        name: _p_value(estimate, settings.checks[name])
        for name, estimate in estimates.items()
        if isinstance(estimate, ClusteredEstimate) and _side(settings.checks.get(name))
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
    """What is said of a check, given the p-values of all that are tested."""
    check, threshold = CHECKS[name], settings.checks.get(name)
    found = CheckResult(name, check.title, check.unit, "not measured", sentence=str(estimate))
    if isinstance(estimate, str):
        return found
    interval = estimate.interval(settings.level)
    if check.unit == "number":  # coefficients of agreement, and squared errors of probabilities
        interval = Interval(max(-1.0, interval.low), min(1.0, interval.high))
    says = f"{check.says.format(shown(estimate.value, check.unit))} ({100 * settings.level:g} %: "
    says = f"{says[0].upper()}{says[1:]}{bounds(interval, check.unit)})"
    found = replace(found, word="shown", value=estimate.value, interval=interval, sentence=f"{says}.")
    if threshold is None or not (side := _side(threshold)):
        return found
    limit, needed, why = float(getattr(threshold, side)), None, ""
    is_inside = _is_good(interval.low, threshold) and _is_good(interval.high, threshold)
    word: Word = "fails" if corrected[name] <= settings.alpha else "passes" if is_inside else "underpowered"
    if estimate.clusters < FEWEST_CLUSTERS:
        word = "underpowered"
    if word == "underpowered":
        needed, why = _rows_needed(estimate, threshold, settings, rows, len(tested))
    limits = {"at_least": "at least ", "at_most": "at most ", "within": "not beyond ±"}[side]
    sentence = f"{says}; wanted: {limits}{shown(limit, check.unit, signed=False)}.{why}"
    p, p_corrected = tested[name], corrected[name]
    found = replace(found, word=word, side=side, threshold=limit, rows_needed=needed, sentence=sentence)
    return replace(found, p=p, p_corrected=p_corrected)


def _side(threshold: Threshold | None) -> str:
    sides = ("at_least", "at_most", "within")
    return next((side for side in sides if threshold is not None and getattr(threshold, side) is not None), "")


def _is_good(value: float, threshold: Threshold) -> bool:
    if threshold.at_least is not None:
        return value >= threshold.at_least
    if threshold.at_most is not None:
        return value <= threshold.at_most
    return abs(value) <= (threshold.within or 0.0)


def _p_value(estimate: ClusteredEstimate, threshold: Threshold) -> float:
    """The p-value of "the true value is on the good side of the threshold"."""
    if threshold.at_least is not None:
        return estimate.p_below(threshold.at_least)
    if threshold.at_most is not None:
        return estimate.p_above(threshold.at_most)
    return estimate.p_outside(threshold.within or 0.0)


def _rows_needed(
    estimate: ClusteredEstimate, threshold: Threshold, settings: AuditSettings, rows: int, tests: int
) -> tuple[int | None, str]:
    """How many rows it takes to decide, and the words for that.

    The size of an effect that is wanted within bounds is what is told from the bound.
    """
    value = abs(estimate.value) if threshold.within is not None else estimate.value
    limit = next(each for each in (threshold.at_least, threshold.at_most, threshold.within) if each is not None)
    good_side = 1.0 if threshold.at_least is not None else -1.0
    is_good = _is_good(estimate.value, threshold)
    truth = limit + good_side * threshold.margin * (1 if is_good else -1)
    power, alpha = settings.power, (1 - settings.level) / 2 if is_good else settings.alpha / tests
    if threshold.within is not None and truth <= 0:
        truth, power = 0.0, (1 + power) / 2  # without an effect, neither bound may be reached
    if estimate.trials is not None:
        truth = min(1.0, max(0.0, truth))
    size = replace(estimate, value=value)
    if abs(truth - limit) < 1e-9:
        return None, " No number of rows would show more: the threshold is at the end of the scale."
    needed = size.rows_to_tell(truth, limit, rows=rows, alpha=alpha, power=power)
    if needed > rows:
        better = "without any effect" if truth == 0.0 and threshold.within is not None else "without this fault"
        what = f"a judge {better} passes" if is_good else "a fault of this kind is found"
        return needed, f" With {rows:,} rows nothing is decided; {what} with about {needed:,}."
    if abs(value - limit) < 1e-9:
        return None, " The value is the threshold itself, which no number of rows tells apart."
    needed = max(rows + 1, size.rows_to_tell(value, limit, rows=rows, alpha=alpha, power=settings.power))
    return needed, f" The value is near the threshold; as it is measured, about {needed:,} rows decide."


def shown(value: float, unit: Unit, *, signed: bool = True) -> str:
    """A value as people read it."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "points":
        return f"{100 * value:{'+' if signed else ''}.1f} points".replace("-", "−")
    if unit == "dollars":
        return f"${value:.4f}"
    return f"{value:.2f} s" if unit == "seconds" else f"{value:.3f}".replace("-", "−")


def bounds(interval: Interval, unit: Unit) -> str:
    """An interval as people read it, the unit said once."""
    low, high = (shown(each, unit) for each in (interval.low, interval.high))
    return f"{low.removesuffix(' %').removesuffix(' points').removesuffix(' s')} to {high}"
