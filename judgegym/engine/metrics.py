"""Aggregation of observations into the metrics under `eval/` and `train/`.

Guarantees: every value is a finite number; a metric that cannot be computed is left out, with a
reason. Observations are added in the order of the rows, so that intervals depend only on the rows.
Each observation takes two numbers in arrays, and for intervals a digest of its row's prompt.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

from judgegym.judges.core.naming import MetricNames
from judgegym.judges.core.naming import slug as slug  # others take it from here
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import Agreement, Interval, side
from judgegym.statistics.intervals import Ends, estimate_mean

if TYPE_CHECKING:
    from judgegym.judges.core.tasks import ResponseJudgment
    from judgegym.statistics.agreement import Codes

_NO_PROMPT = 0
Bounds: TypeAlias = tuple[float, float]
"""The lowest and the highest value of a row."""
Agrees: TypeAlias = Callable[[float, float], bool]
"""Tells whether a judge's raw score agrees with a gold score."""


@dataclass(frozen=True, slots=True)
class HeadlineTerm:
    """One row's part of the headline metric, which is the sum of totals over the sum of weights."""

    total: float
    weight: float

    @property
    def value(self) -> float:
        """The metric of this row alone."""
        return self.total / self.weight


@dataclass(frozen=True, slots=True)
class GoldLabel:
    """A row's gold label with the judge's label; the judge may be the policy.

    Attributes:
        name: the aspect or the order of the answers, where a row has several labels; empty
            otherwise.
        gold: the gold label: a letter, `yes` or `no`, or a score.
        judge: the judge's label; `None` without a verdict.
        agrees: both labels are the same (scores: on their scale); `None` without a verdict.
    """

    name: str
    gold: str | float
    judge: str | float | None
    agrees: bool | None

    @classmethod
    def from_labels(cls, gold: str, judge: str | None, name: str = "") -> GoldLabel:
        """Compare two labels."""
        return cls(name, gold, judge, None if judge is None else judge == gold)

    @classmethod
    def compare(
        cls,
        gold: str | float,
        judged: ResponseJudgment,
        agrees: Agrees,
        *,
        of_aspects: bool,
        name: str = "",
    ) -> GoldLabel:
        """Compare a gold label with a judgment; without a score there is no verdict.

        Args:
            gold: a score, `yes` or `no` for an aspect, or another text, which is always a label of
                the judge.
            judged: the judgment.
            agrees: tells whether a raw score agrees with a gold score (`agreement_rule`).
            of_aspects: whether the judge gives verdicts on aspects.
            name: the aspect's name; empty for the only one.
        """
        if isinstance(gold, float):
            return cls(
                name, gold, judged.raw, None if judged.raw is None else agrees(judged.raw, gold)
            )
        label = None
        if judged.score is not None:
            label = judged.label
        if of_aspects and gold in ("yes", "no") and judged.score is not None:
            verdicts = judged.components
            verdict_name = name
            if not name and len(verdicts) == 1:
                (verdict_name,) = verdicts
            verdict = verdicts.get(verdict_name)
            label = None
            if verdict is not None:
                label = "no"
                if verdict >= 0.5:  # a decision model's is a probability
                    label = "yes"
        return cls.from_labels(
            gold, gold if label is not None and label.casefold() == gold.casefold() else label, name
        )


@dataclass(frozen=True, slots=True)
class Metrics:
    """The result of an aggregator.

    Attributes:
        values: finite numbers by full name.
        left_out: full names without a value, with the reason.
        unknown: full names of quantities that exist but are not known, with the reason: `null` in
            files, "unknown" in tables.
        observations: the number of observations of a ratio, a mean or a rate, by full name.
        ends: the ends of the scale of a mean or ratio, by full name, if they were given.
    """

    values: dict[str, float | int]
    left_out: dict[str, str]
    unknown: dict[str, str] = field(default_factory=dict)
    observations: dict[str, int] = field(default_factory=dict)
    ends: dict[str, Bounds] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """Return the values for a file; what is not known is `null`."""
        return {**self.values, **dict.fromkeys(self.unknown)}


@dataclass(slots=True)
class _Ratio:
    numerators: array[float] = field(default_factory=lambda: array("d"))
    denominators: array[float] = field(default_factory=lambda: array("d"))
    prompts: array[int] = field(default_factory=lambda: array("Q"))
    ends: Bounds | None = None
    has_interval: bool = False

    @property
    def value(self) -> float:
        return sum(self.numerators) / sum(self.denominators)

    def bounds(self) -> Interval | str:
        """Return the interval over prompts, or why there is none.

        One observation is its own interval.
        """
        if len(self.numerators) == 1:
            return Interval(self.value, self.value)
        import numpy as np  # late: a fifth of a second

        rows = np.array([self.numerators, self.denominators])
        counts, clusters = rows[1] > 0, prompt_clusters(self.prompts)
        ends = None
        if self.ends is not None:
            ends = Ends(*self.ends)
        estimate = estimate_mean(*rows[:, counts], clusters=clusters[counts], ends=ends)
        if isinstance(estimate, str):
            return estimate
        return estimate.interval()


class MetricAggregator:
    """Collects observations under short names, to which `result` adds the prefix.

    A ratio is the sum of its numerators over the sum of its denominators. A mean is a ratio with
    denominators of 1, a rate is a mean of yes (1) and no (0). With one observation the interval is
    that value; without observations the metric is absent. Observations of rows with the same prompt
    (`begin_row`) are one cluster of the interval. Metrics of a category or cluster are recorded
    under `names(category)`.
    """

    def __init__(
        self, prefix: str, *, intervals: bool = True, names: MetricNames | None = None
    ) -> None:
        """Start without observations.

        Args:
            prefix: the prefix of all names.
            intervals: whether there are intervals.
            names: the names of all rows' categories.
        """
        self.prefix = prefix
        self.names = MetricNames() if names is None else names
        self._has_intervals = intervals
        self._prompt = _NO_PROMPT
        self._order: list[str] = []
        self._ratios: dict[str, _Ratio] = {}
        self._numbers: dict[str, float | int] = {}
        self._left_out: dict[str, str] = {}
        self._unknown: dict[str, str] = {}
        self._expected: dict[str, str] = {}

    def begin_row(self, prompt: str | None) -> None:
        """Start a row: its observations depend on those of rows with the same prompt.

        With `None` they depend on no others; so do all observations if this is never called.
        """
        self._prompt = prompt_code(prompt)

    def ratio(
        self,
        name: str,
        numerator: float,
        denominator: float,
        *,
        interval: bool = False,
        ends: Bounds | None = None,
    ) -> None:
        """Add a row to a ratio of sums; its numerator and its denominator are not negative.

        The ratio has no value if all denominators are 0.

        Args:
            name: the ratio's name.
            numerator: the row's numerator.
            denominator: the row's denominator.
            interval: whether the ratio has an interval.
            ends: the ends of the scale of numerator / denominator; `None` for 0 to 1, or if
                unknown.
        """
        target = self._ratio(name)
        target.numerators.append(numerator)
        target.denominators.append(denominator)
        if self._has_intervals:
            target.prompts.append(self._prompt)
            target.has_interval, target.ends = target.has_interval or interval, target.ends or ends

    def mean(
        self, name: str, value: float, *, interval: bool = False, ends: Bounds | None = None
    ) -> None:
        """Add one observation of a mean."""
        self.ratio(name, value, 1.0, interval=interval, ends=ends)

    def rate(self, name: str, hit: bool, *, interval: bool = False) -> None:
        """Add one yes or no to a rate."""
        self.ratio(name, float(hit), 1.0, interval=interval)

    def count(self, name: str, by: int | bool = 1) -> None:
        """Add to a count; a count to which only 0 was added is reported as 0."""
        self.number(name, int(self._numbers.get(name, 0)) + int(by))

    def number(self, name: str, value: float | int) -> None:
        """Set a value."""
        if name not in self._numbers:
            self._order.append(name)
        self._numbers[name] = value

    def cost(self, name: str, value: float | None) -> None:
        """Set a cost in US dollars; `None` is reported as unknown."""
        if value is None:
            self._unknown[name] = "no price is set, or the endpoint counts no tokens"
        else:
            self.number(name, value)

    def add_agreement(self, agreement: Agreement, suffix: str = "") -> None:
        """Add an agreement's statistics, and leave out those without a value."""
        for name, value in agreement.values.items():
            self.number(f"{name}{suffix}", value)
        for name, reason in agreement.undefined.items():
            self.leave_out(f"{name}{suffix}", reason)

    def leave_out(self, name: str, reason: str) -> None:
        """Report why a metric has no value."""
        self._left_out[name] = reason

    def expect(self, reason: str, *names: str) -> None:
        """Set the reason for metrics that get neither a value nor a reason of their own."""
        for name in names:
            self._expected.setdefault(name, reason)

    def extend(self, aggregator: MetricAggregator) -> None:
        """Append all ratios of another aggregator."""
        for name, ratio in aggregator._ratios.items():
            target = self._ratio(name)
            target.numerators.extend(ratio.numerators)
            target.denominators.extend(ratio.denominators)
            target.prompts.extend(ratio.prompts)
            target.has_interval, target.ends = (
                target.has_interval or ratio.has_interval,
                target.ends or ratio.ends,
            )

    def _ratio(self, name: str) -> _Ratio:
        if name not in self._ratios:
            self._ratios[name] = _Ratio()
            self._order.append(name)
        return self._ratios[name]

    def has_number(self, name: str) -> bool:
        """Return whether a value was set or counted under a name."""
        return name in self._numbers

    def result(self) -> Metrics:
        """Return all values in the order of their first observation, each with its interval."""
        values: dict[str, float | int] = {}
        left_out = {f"{self.prefix}/{name}": reason for name, reason in self._left_out.items()}
        for name in self._order:
            ratio = self._ratios.get(name)
            if ratio is not None and not sum(ratio.denominators):
                left_out[f"{self.prefix}/{name}"] = "its weights sum to 0"
                continue
            for full, value in self._values(name):
                if isinstance(value, str):
                    left_out[full] = value
                elif math.isfinite(value):
                    values[full] = value
                else:
                    left_out[full] = f"not a finite number ({value})"
        unknown = {f"{self.prefix}/{name}": reason for name, reason in self._unknown.items()}
        for name, reason in self._expected.items():
            full = f"{self.prefix}/{name}"
            if full not in values and full not in unknown:
                left_out.setdefault(full, reason)
        observations = {
            f"{self.prefix}/{name}": len(ratio.numerators) for name, ratio in self._ratios.items()
        }
        ends = {
            f"{self.prefix}/{name}": ratio.ends
            for name, ratio in self._ratios.items()
            if ratio.ends is not None
        }
        return Metrics(values, left_out, unknown, observations, ends)

    def _values(self, name: str) -> list[tuple[str, float | int | str]]:
        full = f"{self.prefix}/{name}"
        ratio = self._ratios.get(name)
        if ratio is None:
            return [(full, self._numbers[name])]
        values: list[tuple[str, float | int | str]] = [(full, ratio.value)]
        if ratio.has_interval:
            bounds: Interval | str = Interval(ratio.value, ratio.value)
            if math.isfinite(ratio.value):
                bounds = ratio.bounds()
            low, high = (bounds, bounds) if isinstance(bounds, str) else (bounds.low, bounds.high)
            values += [(f"{full}_ci_low", low), (f"{full}_ci_high", high)]
        return values


def prompt_code(prompt: str | None) -> int:
    """Return a number that identifies a prompt; `None` is a prompt of its own."""
    if prompt is None:
        return _NO_PROMPT
    return (
        int.from_bytes(
            blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
        )
        or 1
    )


def prompt_clusters(codes: array[int]) -> Codes:
    """Return for each row the number of its prompt's cluster, by the prompts' codes."""
    import numpy as np

    prompts = np.array(codes)
    numbers = np.unique(prompts, return_inverse=True)[1]
    return np.where(prompts == _NO_PROMPT, len(codes) + np.arange(len(codes)), numbers)


def record_parts(
    metrics: MetricAggregator,
    names: Iterable[str],
    numbers: Mapping[str, float],
    jury: float | None = None,
) -> None:
    """Record the score of each part of a reward, and how often a part has none.

    Args:
        metrics: the aggregator.
        names: the parts' names.
        numbers: the available scores by name, of one response with a score.
        jury: the response's score from 0 to 1, if a jury gave it; then also record how often each
            member is on the same side of ½.
    """
    for name in names:
        part = "part_" + slug(name)
        if name in numbers:
            metrics.mean(part, numbers[name], interval=True)
            if jury is not None:
                metrics.rate(f"{part}_agreement_rate", side(numbers[name]) == side(jury))
        metrics.rate(f"{part}_missing_rate", name not in numbers)


def expect_parts(metrics: MetricAggregator, names: Iterable[str], *, is_jury: bool) -> None:
    """Declare the metrics of `record_parts`, with the reason why one may have no value."""
    for name in names:
        part = "part_" + slug(name)
        metrics.expect(
            "no completion has a score of this part", part, *([f"{part}_agreement_rate"] * is_jury)
        )
        metrics.expect("no completion has a score", f"{part}_missing_rate")


class RatioRecorder(MetricAggregator):
    """Adds up what each row adds to one ratio, and nothing else."""

    def __init__(self, name: str, names: MetricNames | None = None) -> None:
        """Follow the ratio with this name; `names` knows the categories of all rows."""
        super().__init__("eval", names=names)
        self._name = name
        self._total = self._weight = 0.0

    def pop_share(self) -> HeadlineTerm | None:
        """Return what was added since the last call; `None` if nothing was."""
        share = None
        if self._weight:
            share = HeadlineTerm(self._total, self._weight)
        self._total = self._weight = 0.0
        return share

    def ratio(
        self,
        name: str,
        numerator: float,
        denominator: float,
        *,
        interval: bool = False,
        ends: Bounds | None = None,
    ) -> None:
        """Add to the ratio, if it is the one followed."""
        if name == self._name:
            self._total += numerator
            self._weight += denominator

    def extend(self, aggregator: MetricAggregator) -> None:
        """Add the sums of the ratio."""
        ratio = aggregator._ratios.get(self._name)
        if ratio is not None:
            self.ratio(self._name, sum(ratio.numerators), sum(ratio.denominators))

    def number(self, name: str, value: float | int) -> None:
        """Ignore the number."""
