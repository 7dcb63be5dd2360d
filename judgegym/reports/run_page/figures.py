"""The numbers of a run that its page draws: a few for each row, in arrays, and no text but the names of categories.

What is a row here is a rollout on the page of groups.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from judgegym.engine.metrics import HeadlineTerm
from judgegym.judges.core.group import Look
from judgegym.statistics.agreement import Interval, ratio_interval

NONE = math.nan
"""In the arrays, where a row has no such number."""

_ROWS_FOR_AN_INTERVAL = 5


def orders_disagree(orders: Mapping[str, float]) -> bool | None:
    """Whether the orders of the answers led to different verdicts; `None` with one order, or without any."""
    return len(set(orders.values())) > 1 if len(orders) > 1 else None


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum of the costs of calls; `None` if one of them is not known."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


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

    def add(
        self,
        *,
        status: str,
        score: float | None,
        length: int,
        category: str | None = None,
        headline: HeadlineTerm | None = None,
        judge_cost: float | None = None,
        judge_seconds: Sequence[float] = (),
        policy_seconds: Sequence[float] = (),
        orders: Mapping[str, float] = MappingProxyType({}),
        looks: Sequence[Look] = (),
    ) -> None:
        """Add a row.

        Args:
            status: how it ended.
            score: its score.
            length: characters of what was judged.
            category: its category.
            headline: what it adds to the headline metric; `None` if it does not count.
            judge_cost: US dollars of its judge calls; `None` if not known.
            judge_seconds: of each judge call that an endpoint answered.
            policy_seconds: of each call to the policy that an endpoint answered.
            orders: points of the evaluated side (0 to 1) by the order of the answers.
            looks: where a judge of groups saw it, and what it gave it.
        """
        self.statuses[status] += 1
        self.categories.append(self.names.setdefault(category, len(self.names)))
        self.scores.append(_number(score))
        term = headline if headline is not None and headline.weight else None
        self.has_values = self.has_values or term is not None
        self.totals.append(NONE if term is None else _number(term.total))
        self.weights.append(NONE if term is None else _number(term.weight))
        self.lengths.append(length)
        self.judge_costs.append(_number(judge_cost))
        self.judge_seconds.extend(judge_seconds)
        self.policy_seconds.extend(policy_seconds)
        for order, points in orders.items():
            self.orders.setdefault(order, _doubles()).append(points)
        for look in looks:
            for column, number in zip(self.looks, (*look, _number(score)), strict=True):
                column.append(number)
        disagree = orders_disagree(orders)
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
