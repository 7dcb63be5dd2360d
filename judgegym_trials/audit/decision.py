"""Decision on each check: it passes, fails, or needs more rows or better labels.

*fails*: the value is beyond the threshold, by a test at level `alpha` whose p-value is corrected
for all checks with a threshold (Holm). So at most that share of audits accuses a faultless judge by
any check, and the false discovery rate is no larger. *passes*: the whole interval is on the good
side of the threshold. *underpowered*: neither; then the result has the number of such rows that a
decision needs:

* if the estimate is on the bad side of the threshold, until a fault that lies `margin` beyond it
fails; * if the estimate is on the good side, until a judge that is `margin` better (at best without
any effect) passes; * if there are that many rows and still no decision, the value lies near the
threshold: the number is for the value as measured.

All three hold with probability `power`. An underpowered check whose whole interval is beyond the
threshold is *suspect*: alone it would be certain, among so many other checks it is not.

If labels may be wrong (`noise.py`), an effect *fails* if its value is beyond the threshold and the
p-value of "there is no effect" is at most `alpha` after Holm's correction. If nobody knows how many
labels are wrong, it passes or fails only if it would at every share of wrong labels up to
`label_noise_bound`. Otherwise it is *cannot tell*, with the share that tips it and the number of
rows to label twice.

The first two numbers depend on how much rows vary, and not on the estimate itself, which scatters
if there are few rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from judgegym.statistics.agreement import Interval
from judgegym.statistics.paired import holm
from judgegym_trials.audit.checks import CHECKS, Estimate, Unit
from judgegym_trials.audit.clustered import ClusteredEstimate
from judgegym_trials.audit.latent_truth import noise_left
from judgegym_trials.audit.noise import AtNoise, NoisyEffect
from judgegym_trials.audit.settings import AuditSettings, Threshold

Word = Literal["passes", "fails", "suspect", "underpowered", "cannot tell", "shown", "not measured"]
_LIMITS = {"at_least": "at least ", "at_most": "at most ", "within": "not beyond ±"}
_NOISE_STEP = 0.02
"""Step between the shares of wrong labels that are tried."""
_GOLD, _TRUTH = "gold held fixed", "the truth held fixed"
FEWEST_CLUSTERS = 10
"""Minimum number of independent rows for a check to pass or fail."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """An audit's result of one check.

    Attributes:
        name: the check's name, as in the settings.
        title: its title in a table.
        unit: the unit of the value, the interval and the threshold.
        word: the decision; `shown` without a threshold.
        value: the effect; `None` if it is not measured.
        interval: its interval at the audit's level.
        side: `at_least`, `at_most` or `within`; empty without a threshold.
        threshold: the threshold.
        p: the p-value of "it is on the good side of the threshold"; for an effect with labels that
            may be wrong, of "there is no effect", and 1 if the value is on the good side.
        p_corrected: the same, corrected for all tests of the audit.
        rows_needed: number of rows needed to decide; `None` if it is decided, or if no number of
            rows is enough.
        tipping_noise: for "cannot tell", the share of wrong labels that would change the
            decision.
        rows_to_label_twice: for "cannot tell", the number of rows with two labels that is enough.
        sentence: the result in words, or why it is not measured.
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
    tipping_noise: float | None = None
    rows_to_label_twice: int | None = None
    sentence: str = ""


def decide(
    estimates: Mapping[str, Estimate], settings: AuditSettings, rows: int
) -> list[CheckResult]:
    """Decide for each estimate whether it passes.

    Args:
        estimates: the estimates by check, or why there is none.
        settings: the thresholds.
        rows: number of rows of the audit.
    """
    wanted: dict[str, ClusteredEstimate | NoisyEffect] = {}
    for name, estimate in estimates.items():
        threshold = settings.checks.get(name)
        if not isinstance(estimate, str) and threshold and threshold.side:
            wanted[name] = estimate
    tested = {
        name: _p_value(estimate, settings.checks[name], settings)
        for name, estimate in wanted.items()
    }
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    as_exact = dict(tested)
    for name, effect in wanted.items():
        if isinstance(effect, NoisyEffect) and not effect.is_known:
            as_exact[name] = _p_beyond(effect.exact, settings.checks[name])
    tests = _Tests(
        tested, corrected, dict(zip(as_exact, holm(list(as_exact.values())), strict=True))
    )
    return [
        _decide_check(name, estimate, settings, rows, tests) for name, estimate in estimates.items()
    ]


@dataclass(frozen=True, slots=True)
class _Tests:
    """p-values of all tested checks, by name; the last field assumes exact labels."""

    p: Mapping[str, float]
    corrected: Mapping[str, float]
    corrected_as_exact: Mapping[str, float]


def _decide_check(
    name: str, estimate: Estimate, settings: AuditSettings, rows: int, tests: _Tests
) -> CheckResult:
    """Return a check's result, given the p-values of all tested checks."""
    check = CHECKS[name]
    if isinstance(estimate, str):
        return CheckResult(name, check.title, check.unit, "not measured", sentence=estimate)
    held, shown = _GOLD, estimate
    if isinstance(estimate, NoisyEffect):
        shown = estimate.exact
        if estimate.is_known:
            held = _TRUTH
            shown = estimate.effect_at_known_noise().estimate
    assert isinstance(shown, ClusteredEstimate)
    interval = shown.interval(settings.level)
    if check.unit == "number":  # coefficients of agreement, and squared errors of probabilities
        interval = Interval(max(-1.0, interval.low), min(1.0, interval.high))
    effect = check.says.replace(_GOLD, held).format(format_value(shown.value, check.unit))
    first = effect[0].upper()
    bounds = format_interval(interval, check.unit)
    says = f"{first}{effect[1:]} ({100 * settings.level:g} %: {bounds})"
    result = CheckResult(
        name, check.title, check.unit, "shown", shown.value, interval, sentence=f"{says}."
    )
    if name not in tests.p:
        return result
    threshold = settings.checks[name]
    limit = format_value(threshold.limit, check.unit, signed=False)
    limit = f"{_LIMITS[threshold.side]}{limit}"
    result = replace(
        result,
        side=threshold.side,
        threshold=threshold.limit,
        p=tests.p[name],
        p_corrected=tests.corrected[name],
    )
    word = _decide_word(shown, threshold, settings, tests.corrected[name])
    if isinstance(estimate, NoisyEffect) and not estimate.is_known:
        as_exact = _decide_word(shown, threshold, settings, tests.corrected_as_exact[name])
        tipping = None
        if word != "fails" and as_exact != "underpowered":
            tipping = _tipping_noise(estimate, threshold, settings, passes=as_exact == "passes")
        if tipping is not None:
            twice = _rows_to_label_twice(estimate, threshold, settings, rows, len(tests.p))
            outcome = "it would not pass" if as_exact == "passes" else "this would be no bias"
            why = (
                f" With {100 * tipping:.0f} % wrong labels {outcome}, and nobody knows how many "
                f"are wrong: about {twice:,} rows with labels of two people tell."
            )
            sentence = f"{says}; wanted: {limit}.{why}"
            return replace(
                result,
                word="cannot tell",
                tipping_noise=tipping,
                rows_to_label_twice=twice,
                sentence=sentence,
            )
    needed, why = None, ""
    if word in ("underpowered", "suspect"):
        needed, why = _rows_needed(shown, threshold, settings, rows, len(tests.p))
    if word == "suspect":
        certain, others = "not certain", len(tests.p) - 1
        if others:
            certain = f"not certain enough beside {others} other checks"
        why = (
            f" The whole interval is beyond the threshold, which is {certain} to say that it "
            f"fails.{why}"
        )
    return replace(result, word=word, rows_needed=needed, sentence=f"{says}; wanted: {limit}.{why}")


def _decide_word(
    estimate: ClusteredEstimate, threshold: Threshold, settings: AuditSettings, corrected: float
) -> Word:
    """Decide by an estimate and its corrected p-value."""
    if estimate.clusters < FEWEST_CLUSTERS:
        return "underpowered"
    if corrected <= settings.alpha:
        return "fails"
    interval = estimate.interval(settings.level)
    if threshold.tolerates(interval.low) and threshold.tolerates(interval.high):
        return "passes"
    if threshold.excludes(interval.low, interval.high):
        return "suspect"
    return "underpowered"


def _p_value(
    estimate: ClusteredEstimate | NoisyEffect, threshold: Threshold, settings: AuditSettings
) -> float:
    """Return the p-value with which a check is tested.

    If nobody knows how many labels are wrong, it is the largest p-value at any share, or else a
    number above `alpha`.
    """
    if isinstance(estimate, ClusteredEstimate):
        return _p_beyond(estimate, threshold)
    if estimate.is_known:
        return _p_at(estimate.effect_at_known_noise(), threshold)
    largest = _p_beyond(estimate.exact, threshold)
    for noise in _noise_levels(settings):
        if largest > settings.alpha:
            break
        largest = max(largest, _p_at(estimate.at(noise), threshold, like=estimate.exact.value))
    return largest


def _p_beyond(estimate: ClusteredEstimate, threshold: Threshold) -> float:
    """Return the p-value of "the true value is on the good side of the threshold"."""
    if threshold.side == "at_least":
        return estimate.p_below(threshold.limit)
    if threshold.side == "within":
        return estimate.p_outside(threshold.limit)
    return estimate.p_above(threshold.limit)


def _p_at(effect: AtNoise, threshold: Threshold, *, like: float | None = None) -> float:
    """Return the p-value of "there is no effect".

    It is 1 if the value is on the good side or has another sign than `like`.
    """
    value = effect.estimate.value
    if threshold.tolerates(value) or (like is not None and like * value <= 0):
        return 1.0
    return effect.p


def _noise_levels(settings: AuditSettings) -> Iterator[float]:
    """Yield the shares of wrong labels to try, above 0, with the bound last."""
    steps = math.ceil(settings.label_noise_bound / _NOISE_STEP - 1e-9)
    yield from (min(settings.label_noise_bound, step * _NOISE_STEP) for step in range(1, steps + 1))


def _tipping_noise(
    estimate: NoisyEffect, threshold: Threshold, settings: AuditSettings, *, passes: bool
) -> float | None:
    """Return the smallest share of wrong labels that changes the decision.

    A passing check would not pass, or an effect would be none.
    """
    for noise in _noise_levels(settings):
        effect = estimate.at(noise)
        if passes:
            interval = effect.estimate.interval(settings.level)
            stands = threshold.tolerates(interval.low) and threshold.tolerates(interval.high)
        else:
            stands = _p_at(effect, threshold, like=estimate.exact.value) <= settings.alpha
        if not stands:
            return noise
    return None


def _rows_to_label_twice(
    estimate: NoisyEffect, threshold: Threshold, settings: AuditSettings, rows: int, tests: int
) -> int:
    """Return how many rows with two labels can show an effect `margin` beyond the threshold.

    It assumes as many wrong labels as the bound. Rows on which both labellers agree count, with the
    noise that is left there.
    """
    bound = settings.label_noise_bound
    measured = estimate.at(noise_left(bound, 2)).estimate
    effect = abs(threshold.limit) + threshold.margin
    alpha = settings.alpha / tests / 2
    needed = measured.rows_to_decide(effect, 0.0, rows=rows, alpha=alpha, power=settings.power)
    return math.ceil(needed / ((1 - bound) ** 2 + bound**2))


def _rows_needed(
    estimate: ClusteredEstimate,
    threshold: Threshold,
    settings: AuditSettings,
    rows: int,
    tests: int,
) -> tuple[int | None, str]:
    """Return how many rows are needed to decide, and a sentence about it.

    For an effect that should lie within bounds, its size is compared with the bound.
    """
    limit = threshold.limit
    is_within = threshold.side == "within"
    is_good = threshold.tolerates(estimate.value)
    truth = limit + threshold.margin * (1 if is_good is (threshold.side == "at_least") else -1)
    power = settings.power
    alpha = (1 - settings.level) / 2 if is_good else settings.alpha / tests
    if is_within and truth <= 0:
        truth, power = 0.0, (1 + power) / 2  # without an effect, neither bound may be exceeded
    if estimate.trials is not None:
        truth = min(1.0, max(0.0, truth))
    if abs(truth - limit) < 1e-9:
        return None, " More rows cannot decide: the threshold is at the end of the scale."
    needed = estimate.rows_to_decide(truth, limit, rows=rows, alpha=alpha, power=power)
    if needed > rows:
        better = "without any effect" if truth == 0.0 and is_within else "without this fault"
        outcome = f"a judge {better} passes" if is_good else "a fault of this kind is found"
        return needed, f" With {rows:,} rows nothing is decided; {outcome} with about {needed:,}."
    value = abs(estimate.value) if is_within else estimate.value
    if abs(value - limit) < 1e-9:
        return None, " The value equals the threshold, so more rows cannot decide."
    needed = max(
        rows + 1,
        estimate.rows_to_decide(value, limit, rows=rows, alpha=alpha, power=settings.power),
    )
    return (
        needed,
        f" The value is near the threshold; as it is measured, about {needed:,} rows decide.",
    )


def format_value(value: float, unit: Unit, *, signed: bool = True) -> str:
    """Format a value for people."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "points":
        points = f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"
        return f"{points} points".replace("-", "−")
    if unit == "dollars":
        return f"${value:.4f}"
    if unit == "seconds":
        return f"{value:.2f} s"
    return f"{value:.3f}".replace("-", "−")


def format_interval(interval: Interval, unit: Unit) -> str:
    """Format an interval for people, with its unit once."""
    low, high = (format_value(bound, unit) for bound in (interval.low, interval.high))
    for suffix in (" %", " points", " s"):
        low = low.removesuffix(suffix)
    return f"{low} to {high}"
