"""The numbers of a run that its page draws: a few for each row, in arrays, and no text but the names of categories.

What is a row here is a rollout on the page of groups.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from judgegym.judges.core.group import Look
from judgegym.statistics.agreement import Interval, ratio_interval

NONE = math.nan
"""In the arrays, where a row has no such number."""

_ROWS_FOR_AN_INTERVAL = 5


@dataclass(frozen=True, slots=True)
class RowFigures:
    """The numbers of one row.

    Attributes:
        category: the row's category.
        status: how it ended.
        score: the row's score.
        total: what it adds to the numerator of the headline metric; `None` if it does not count.
        weight: what it adds to the denominator.
        length: characters of what was judged.
        judge_cost: US dollars of its judge calls; `None` if not known.
        judge_seconds: of each judge call that an endpoint answered.
        policy_seconds: of each call to the policy that an endpoint answered.
        orders: points of the evaluated side (0 to 1) by the order of the answers.
        looks: where a judge of groups saw it, and what it gave it.
    """

    category: str | None
    status: str
    score: float | None
    total: float | None
    weight: float | None
    length: int
    judge_cost: float | None
    judge_seconds: Sequence[float] = ()
    policy_seconds: Sequence[float] = ()
    orders: Mapping[str, float] = field(default_factory=dict)
    looks: Sequence[Look] = ()

    @property
    def value(self) -> float | None:
        """What the row contributes to the headline metric, per unit of weight."""
        return self.total / self.weight if self.total is not None and self.weight else None


def orders_disagree(orders: Mapping[str, float]) -> bool | None:
    """Whether the orders of the answers led to different verdicts; `None` with one order, or without any."""
    return len(set(orders.values())) > 1 if len(orders) > 1 else None


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over some rows, with its interval if there are enough of them."""

    value: float
    rows: int
    interval: Interval | None


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class RunFigures:
    """The numbers of all rows, column by column.

    Attributes:
        statuses: the number of rows of each status.
        categories: for each row the number of its category among `names`.
        names: the categories, in the order in which they first occur; `None` for rows without one.
        scores: for each row, or `NONE`.
        totals: for each row, or `NONE`.
        weights: for each row, or `NONE`.
        lengths: for each row.
        judge_costs: for each row, or `NONE`.
        judge_seconds: of all answered judge calls.
        policy_seconds: of all answered calls to the policy.
        orders: points by the order of the answers, of the rows that have some.
        disagreeing: rows whose orders led to different verdicts.
        in_both_orders: rows with more than one order.
        looks: for each look of a judge of groups the place, among how many, the points, and the answer's score.
        has_values: whether rows say what they contribute to the headline metric.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    categories: array[int] = field(default_factory=lambda: array("l"))
    names: dict[str | None, int] = field(default_factory=dict)
    scores: array[float] = field(default_factory=_doubles)
    totals: array[float] = field(default_factory=_doubles)
    weights: array[float] = field(default_factory=_doubles)
    lengths: array[float] = field(default_factory=_doubles)
    judge_costs: array[float] = field(default_factory=_doubles)
    judge_seconds: array[float] = field(default_factory=_doubles)
    policy_seconds: array[float] = field(default_factory=_doubles)
    orders: dict[str, array[float]] = field(default_factory=dict)
    looks: tuple[array[float], array[float], array[float], array[float]] = field(
        default_factory=lambda: (_doubles(), _doubles(), _doubles(), _doubles())
    )
    disagreeing: int = 0
    in_both_orders: int = 0
    has_values: bool = False

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.scores)

    def add(self, row: RowFigures) -> None:
        """Add a row."""
        self.statuses[row.status] += 1
        self.categories.append(self.names.setdefault(row.category, len(self.names)))
        self.scores.append(_number(row.score))
        counts = row.value is not None
        self.has_values = self.has_values or counts
        self.totals.append(_number(row.total) if counts else NONE)
        self.weights.append(_number(row.weight) if counts else NONE)
        self.lengths.append(row.length)
        self.judge_costs.append(_number(row.judge_cost))
        self.judge_seconds.extend(row.judge_seconds)
        self.policy_seconds.extend(row.policy_seconds)
        for order, points in row.orders.items():
            self.orders.setdefault(order, _doubles()).append(points)
        for look in row.looks:
            for column, number in zip(self.looks, (*look, _number(row.score)), strict=True):
                column.append(number)
        disagree = orders_disagree(row.orders)
        self.in_both_orders += disagree is not None
        self.disagreeing += disagree is True

    def value(self, number: int) -> float:
        """What a row contributes to the headline metric; its score where no row has such a value; or `NONE`."""
        return self.totals[number] / self.weights[number] if self.has_values else self.scores[number]

    def headline(self, *, seed: int = 0) -> Mean | None:
        """The headline metric over all rows that count; `None` without one."""
        return self._mean(self._shares(lambda number: 0)[0], seed) if self.has_values else None

    def by_category(self, *, most: int, seed: int = 0, intervals: bool = True) -> tuple[dict[str, Mean], int]:
        """The headline metric of the largest categories, or the mean score where rows do not say what they contribute.

        Returns:
            The means of at most `most` categories, the largest first, and how many categories were left out.
        """
        if set(self.names) <= {None}:
            return {}, 0
        shares, names = self._shares(self.categories.__getitem__), list(self.names)
        largest = sorted(shares, key=lambda number: -len(shares[number][0]))[:most]
        means = {names[number] or "(none)": self._mean(shares[number], seed, intervals=intervals) for number in largest}
        return means, len(shares) - len(means)

    def by_order(self, *, seed: int = 0) -> dict[str, Mean]:
        """The mean points for each order of the answers."""
        ones = {order: array("d", [1.0]) * len(points) for order, points in self.orders.items()}
        return {order: self._mean((points, ones[order]), seed) for order, points in sorted(self.orders.items())}

    def _shares(self, part_of: Callable[[int], int]) -> dict[int, tuple[array[float], array[float]]]:
        """Numerators and denominators of the rows that count, by the part that each belongs to."""
        parts: dict[int, tuple[array[float], array[float]]] = {}
        for number, top in enumerate(self.totals if self.has_values else self.scores):
            if not math.isnan(top):
                tops, bottoms = parts.setdefault(part_of(number), (_doubles(), _doubles()))
                tops.append(top)
                bottoms.append(self.weights[number] if self.has_values else 1.0)
        return parts

    @staticmethod
    def _mean(shares: tuple[array[float], array[float]], seed: int, *, intervals: bool = True) -> Mean:
        tops, bottoms = shares
        has_one = intervals and len(tops) >= _ROWS_FOR_AN_INTERVAL
        interval = ratio_interval(tops, bottoms, seed=seed) if has_one else None
        return Mean(sum(tops) / sum(bottoms), len(tops), interval)


def _number(value: float | None) -> float:
    return NONE if value is None or not math.isfinite(value) else float(value)
