"""Signal of a reward: how much of a gradient repeats when the judge is called again.

A group's completions have rewards r, and r' from an independent second judgment. With the trainer's
advantage a(r) and the centred rewards c(r), the share of the squared signal that does not repeat
is 1 − Σ a(r)·c(r') / Σ a(r)·c(r), summed over groups; the reliability within groups is
Σ c(r)·c(r') / Σ |c(r)|². Both judgments are exchangeable, so every sum is the mean of both orders.

The agreement of advantages is their cosine with the centred rewards of an independent judgment.
That of a judgment's own advantages is observed. That of an average of two votes needs a third
judgment; it is predicted from the best linear estimate of a third judgment, 2ρ / (1 + ρ) times the
centred mean of both, where ρ is the reliability. That holds only for centred advantages.

Intervals come from a bootstrap over groups, with a fixed seed.

Sources:
    Spearman, Correlation calculated from faulty data (1910); Brown, Some experimental results in
    the correlation of mental abilities (1910); Efron and Tibshirani, An Introduction to the
    Bootstrap (1993), section 13.3, for percentile intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from judgegym.statistics.agreement import Interval
from judgegym.statistics.corrected import Estimate

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Floats

Advantage: TypeAlias = Literal["deviation", "centre", "rloo", "dr_grpo"]
"""A trainer's advantage. centre: reward minus the group's mean; deviation: that divided by the
group's standard deviation; rloo: reward minus the mean of the others; dr_grpo: as centre."""

MIN_GROUPS = 32
"""Fewer groups are too few to tell."""
LEVEL = 0.9
"""Coverage of the intervals."""
_RESAMPLES = 2_000
_SEED = 53
_EPSILON = 1e-4
"""Added to the standard deviation, as trainers do."""
_ROUNDING = 1e-9
_DECIMALS = 9
_COARSE_LEVELS = 10
_COARSE_SHARE = 0.2
"""A scale is coarse if it has few levels and this share of groups has equal rewards."""


@dataclass(frozen=True, slots=True)
class GroupPair:
    """A group's rewards from two independent judgments.

    Attributes:
        first: the rewards that the trainer gets.
        second: the rewards of the second judgment, in the same order.
        calls: number of judge calls of one judgment of the group.
    """

    first: Sequence[float]
    second: Sequence[float]
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that raises the agreement with an independent judgment.

    Attributes:
        change: what to change.
        calls: further judge calls per group.
        before: the agreement now, from -1 to 1.
        after: the agreement with the change.
        gain: the difference.
    """

    change: str
    calls: float
    before: float
    after: float
    gain: Estimate

    @property
    def text(self) -> str:
        """The change, its cost and its gain in one sentence."""
        cost = "no further call"
        if self.calls:
            cost = f"{self.calls:.1f} further calls per group"
        interval = self.gain.interval
        return (
            f"{self.change}: {cost}, agreement {self.before:.2f} → {self.after:.2f} "
            f"(gain {interval.low:+.2f} to {interval.high:+.2f})"
        )


@dataclass(frozen=True, slots=True)
class Signal:
    """Signal of a reward, from groups judged twice.

    Attributes:
        groups: number of groups.
        reliability: of centred rewards within groups, from -1 to 1.
        unrepeated: share of the squared advantages that does not repeat.
        no_difference: share of groups whose two judgments show no common difference.
        no_difference_weight: their share of the squared advantages.
        equal: share of groups with equal rewards, which have no gradient.
        levels: number of different rewards.
        advice: changes whose gain is above 0 at this number of groups, cheapest first; each helps
            more than those before it. None if the judgments do not differ.
    """

    groups: int
    reliability: Estimate
    unrepeated: Estimate
    no_difference: float
    no_difference_weight: float
    equal: float
    levels: int
    advice: tuple[Advice, ...]

    @property
    def has_coarse_scale(self) -> bool:
        """Whether few levels leave many groups without a gradient."""
        return self.levels <= _COARSE_LEVELS and self.equal >= _COARSE_SHARE

    @property
    def texts(self) -> tuple[str, ...]:
        """The advice in words; a finer scale has no gain, since these judgments cannot tell it."""
        texts = [advice.text for advice in self.advice]
        if self.has_coarse_scale:
            texts.append(
                f"a finer scale: {self.equal:.0%} of the groups have equal rewards on "
                f"{self.levels} levels; the gain cannot be told from these judgments"
            )
        return tuple(texts)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over groups: numbers, or arrays with one value per resample.

    Attributes:
        repeated: Σ a(r)·c(r').
        signal: Σ a(r)·c(r).
        product: Σ c(r)·c(r').
        square: Σ |c(r)|².
        advantage_square: Σ |a(r)|².
        mean_square: Σ |c(mean of both)|².
        differing_mean_square: the same over groups whose first rewards differ.
        differing: number of groups whose first rewards differ.
        differing_calls: judge calls of these groups.
        calls: judge calls of all groups.
        undecided: number of groups without a common difference.
        undecided_square: Σ |a(r)|² of these groups.
    """

    repeated: Floats
    signal: Floats
    product: Floats
    square: Floats
    advantage_square: Floats
    mean_square: Floats
    differing_mean_square: Floats
    differing: Floats
    differing_calls: Floats
    calls: Floats
    undecided: Floats
    undecided_square: Floats

    @property
    def reliability(self) -> Floats:
        """Reliability within groups."""
        reliability: Floats = self.product / self.square
        return reliability

    @property
    def unrepeated(self) -> Floats:
        """Share of the squared advantages that does not repeat."""
        share: Floats = 1.0 - self.repeated / self.signal
        return share

    @property
    def agreement(self) -> Floats:
        """Agreement of the trainer's advantages with an independent judgment."""
        import numpy as np

        size: Floats = np.sqrt(self.advantage_square * self.square)
        return self.repeated / size

    @property
    def agreement_with_all_votes(self) -> Floats:
        """Predicted agreement of centred means of two votes."""
        return self._predict(self.mean_square)

    @property
    def agreement_with_differing_votes(self) -> Floats:
        """Predicted agreement with second votes only in groups whose first rewards differ."""
        return self._predict(self.differing_mean_square)

    def _predict(self, mean_square: Floats) -> Floats:
        import numpy as np

        reliability = np.clip(self.reliability, 0.0, 1.0)
        size: Floats = np.sqrt(mean_square / self.square)
        return 2.0 * reliability / (1.0 + reliability) * size


_Statistic: TypeAlias = "Callable[[_Sums], Floats]"


def compute_advantages(rewards: Sequence[float] | Floats, advantage: Advantage) -> Floats:
    """Return the advantages of a group's completions.

    Raises:
        ValueError: there are fewer than two rewards.
    """
    import numpy as np  # late: importing it takes 0.2 s

    values = np.asarray(rewards, dtype=float)
    if len(values) < 2:
        raise ValueError("an advantage within a group needs two rewards or more")
    centred: Floats = values - values.mean()
    if advantage == "deviation":
        return centred / (float(values.std(ddof=1)) + _EPSILON)
    if advantage == "rloo":
        return centred * (len(values) / (len(values) - 1))
    return centred


def measure_signal(pairs: Sequence[GroupPair], advantage: Advantage) -> Signal | str:
    """Measure the signal of a reward.

    Args:
        pairs: the groups that were judged twice, each with two rewards or more.
        advantage: the trainer's.

    Returns:
        The signal, or why there is none: too few groups, or equal rewards in all groups.
    """
    import numpy as np

    count = len(pairs)
    if count < MIN_GROUPS:
        return f"{count} groups are too few to tell; expected {MIN_GROUPS} or more"
    rows = np.array([_sum_group(pair, advantage) for pair in pairs])
    totals = _Sums(*rows.sum(axis=0))
    if totals.signal <= _ROUNDING:
        return "the rewards of each group are all equal"
    generator = np.random.default_rng(_SEED)
    weights = generator.multinomial(count, np.full(count, 1.0 / count), size=_RESAMPLES)
    resampled_rows = weights @ rows
    has_signal = resampled_rows[:, 1] > _ROUNDING
    resampled = _Sums(*resampled_rows[has_signal].T)
    unrepeated = _estimate(totals, resampled, lambda sums: sums.unrepeated)
    advice: tuple[Advice, ...] = ()
    if unrepeated.interval.low > _ROUNDING:
        advice = _advise(totals, resampled, count, divides=advantage == "deviation")
    return Signal(
        groups=count,
        reliability=_estimate(totals, resampled, lambda sums: sums.reliability),
        unrepeated=unrepeated,
        no_difference=float(totals.undecided) / count,
        no_difference_weight=float(totals.undecided_square / totals.advantage_square),
        equal=1.0 - float(totals.differing) / count,
        levels=_count_levels(pairs),
        advice=advice,
    )


def _count_levels(pairs: Sequence[GroupPair]) -> int:
    """Return the number of different rewards."""
    levels: set[float] = set()
    for pair in pairs:
        levels.update(round(reward, _DECIMALS) for reward in (*pair.first, *pair.second))
    return len(levels)


def _sum_group(pair: GroupPair, advantage: Advantage) -> tuple[float, ...]:
    """Return one group's terms of `_Sums`, in the order of its fields."""
    import numpy as np

    centred = [compute_advantages(rewards, "centre") for rewards in (pair.first, pair.second)]
    advantages = [compute_advantages(rewards, advantage) for rewards in (pair.first, pair.second)]
    product = float(centred[0] @ centred[1])
    mean = (centred[0] + centred[1]) / 2
    mean_square = float(mean @ mean)
    differing = float(np.mean([np.abs(values).max() > _ROUNDING for values in centred]))
    advantage_square = float(np.mean([values @ values for values in advantages]))
    is_undecided = product <= _ROUNDING
    return (
        float(advantages[0] @ centred[1] + advantages[1] @ centred[0]) / 2,
        float(advantages[0] @ centred[0] + advantages[1] @ centred[1]) / 2,
        product,
        float(np.mean([values @ values for values in centred])),
        advantage_square,
        mean_square,
        differing * mean_square,
        differing,
        differing * pair.calls,
        float(pair.calls),
        float(is_undecided),
        advantage_square * is_undecided,
    )


def _estimate(totals: _Sums, resampled: _Sums, statistic: _Statistic) -> Estimate:
    """Return a statistic with its percentile interval."""
    import numpy as np

    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(statistic(resampled), [tail, 1.0 - tail])
    return Estimate(float(statistic(totals)), Interval(float(low), float(high)))


def _advise(totals: _Sums, resampled: _Sums, count: int, *, divides: bool) -> tuple[Advice, ...]:
    """Return the changes that help, cheapest first; each helps more than those before it."""
    vote = "a second vote where the first votes differ"
    votes = "a second vote for every completion"
    if divides:
        vote, votes = (f"no division by the deviation, and {text}" for text in (vote, votes))
    changes: list[tuple[str, float, _Statistic]] = [
        (vote, float(totals.differing_calls), lambda sums: sums.agreement_with_differing_votes),
        (votes, float(totals.calls), lambda sums: sums.agreement_with_all_votes),
    ]
    if divides:
        changes.insert(
            0, ("no division by the group's deviation", 0.0, lambda sums: sums.reliability)
        )
    advice: list[Advice] = []
    best: _Statistic = _agreement
    for change, calls, agreement in changes:
        if _estimate(totals, resampled, partial(_gain, agreement, best)).interval.low <= _ROUNDING:
            continue
        best = agreement
        gain = _estimate(totals, resampled, partial(_gain, agreement, _agreement))
        before, after = float(totals.agreement), float(agreement(totals))
        advice.append(Advice(change, calls / count, before, after, gain))
    return tuple(advice)


def _agreement(sums: _Sums) -> Floats:
    return sums.agreement


def _gain(after: _Statistic, before: _Statistic, sums: _Sums) -> Floats:
    return after(sums) - before(sums)
