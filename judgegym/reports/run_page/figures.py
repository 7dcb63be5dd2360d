"""The numbers of a run for its page: a few for each row, in arrays, without texts of rows.

On the page of groups, a row is a rollout.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from judgegym.engine.metrics import HeadlineTerm, prompt_clusters, prompt_code
from judgegym.judges.core.group import Look
from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import Ends, mean_interval

NONE = math.nan
"""The value in an array where a row has no such number."""

_ROWS_FOR_AN_INTERVAL = 5


def orders_disagree(orders: Mapping[str, float]) -> bool | None:
    """Return whether orders of the answers gave different verdicts; `None` with fewer than two."""
    if len(orders) > 1:
        return len(set(orders.values())) > 1
    return None


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum of the costs of calls; `None` if one is unknown."""
    known_costs = list(costs)
    if None in known_costs:
        return None
    return sum((cost for cost in known_costs if cost is not None), 0.0)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over some rows, with its interval if there are enough rows."""

    value: float
    rows: int
    interval: Interval | None


@dataclass(slots=True)
class _Terms:
    """The terms of a mean, with the codes of the rows' prompts."""

    tops: array[float] = field(default_factory=lambda: array("d"))
    bottoms: array[float] = field(default_factory=lambda: array("d"))
    prompts: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, top: float, bottom: float, prompt: int) -> None:
        """Add a row."""
        self.tops.append(top)
        self.bottoms.append(bottom)
        self.prompts.append(prompt)

    def mean(self, ends: Ends | None, fewest: int) -> Mean:
        """Return the mean; with at least `fewest` rows it has an interval over prompts."""
        interval = None
        if len(self.tops) >= fewest:
            interval = mean_interval(
                self.tops, self.bottoms, clusters=prompt_clusters(self.prompts), ends=ends
            )
        return Mean(sum(self.tops) / sum(self.bottoms), len(self.tops), interval)


class RunFigures:
    """The numbers of all rows, by column; a column has `NONE` where a row has no such number.

    Attributes:
        statuses: the number of rows of each status.
        names: the categories with their numbers, in order of occurrence; `None` for rows without
            one.
        categories: for each row the number of its category.
        judge_seconds: the durations of all answered judge calls.
        policy_seconds: the durations of all answered calls to the policy.
        orders: points by the order of the answers, for rows that have some.
        disagreeing: the number of rows whose orders led to different verdicts.
        in_both_orders: the number of rows with more than one order.
        looks: for each look of a judge of groups: the position, the number of answers shown, the
            points, and the answer's score.
        has_values: whether rows record what they add to the headline metric.
    """

    def __init__(self, ends: Ends | None = None) -> None:
        """Begin without a row; `ends` are those of the headline's scale, unless 0 and 1."""
        self._ends = ends
        self.statuses: Counter[str] = Counter()
        self.names: dict[str | None, int] = {}
        self.categories, self.prompts = array("l"), array("Q")
        self.scores, self.totals, self.weights, self.lengths = (array("d") for _ in range(4))
        self.judge_costs, self.judge_seconds, self.policy_seconds = (array("d") for _ in range(3))
        self.orders: dict[str, _Terms] = {}
        self.looks = [array("d") for _ in range(4)]
        self.disagreeing = self.in_both_orders = 0
        self.has_values = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.scores)

    def add(
        self,
        *,
        status: str,
        score: float | None,
        length: int,
        prompt: str | None = None,
        category: str | None = None,
        headline: HeadlineTerm | None = None,
        judge_cost: float | None = None,
        orders: Mapping[str, float] = MappingProxyType({}),
        looks: Sequence[Look] = (),
    ) -> None:
        """Add a row.

        Args:
            status: how the row ended.
            score: its score.
            length: the number of judged characters.
            prompt: the key that dependent rows share; `None` if it is independent.
            category: its category.
            headline: what it adds to the headline metric; `None` if it does not count.
            judge_cost: the cost of its judge calls in US dollars; `None` if unknown.
            orders: points of the evaluated side (0 to 1) by the order of the answers.
            looks: the positions at which a judge of groups saw it, and the points that it gave.
        """
        counts = headline is not None and bool(headline.weight)
        self.has_values = self.has_values or counts
        self.statuses[status] += 1
        self.categories.append(self.names.setdefault(category, len(self.names)))
        self.prompts.append(prompt_code(prompt))
        self.scores.append(_to_float(score))
        self.totals.append(_to_float(headline.total if headline is not None and counts else None))
        self.weights.append(_to_float(headline.weight if headline is not None and counts else None))
        self.lengths.append(length)
        self.judge_costs.append(_to_float(judge_cost))
        for order, points in orders.items():
            self.orders.setdefault(order, _Terms()).add(points, 1.0, self.prompts[-1])
        for look in looks:
            for column, number in zip(self.looks, (*look, _to_float(score)), strict=True):
                column.append(number)
        disagree = orders_disagree(orders)
        self.in_both_orders += disagree is not None
        self.disagreeing += disagree is True

    def value(self, number: int) -> float:
        """Return a row's value in the headline metric, or its score if no row has such a value."""
        if self.has_values:
            return self.totals[number] / self.weights[number]
        return self.scores[number]

    def _terms(self) -> Iterator[tuple[int, float, float, int]]:
        """Yield the number, total, weight and prompt code of each row that counts."""
        for number, top in enumerate(self.totals if self.has_values else self.scores):
            if not math.isnan(top):
                yield (
                    number,
                    top,
                    self.weights[number] if self.has_values else 1.0,
                    self.prompts[number],
                )

    def headline(self) -> Mean | None:
        """Return the headline metric over all rows that count; `None` without one."""
        if not self.has_values:
            return None
        whole = _Terms()
        for _, top, bottom, prompt in self._terms():
            whole.add(top, bottom, prompt)
        return whole.mean(self._ends, _ROWS_FOR_AN_INTERVAL)

    def average_by_category(
        self, *, most: int, intervals: bool = True
    ) -> tuple[dict[str, Mean], int]:
        """Average the headline metric, or else the score, by category.

        Returns:
            The means of at most `most` categories, the largest first, and how many categories were
            left out.
        """
        if set(self.names) <= {None}:
            return {}, 0
        names = list(self.names)
        parts: dict[int, _Terms] = {}
        for number, top, bottom, prompt in self._terms():
            parts.setdefault(self.categories[number], _Terms()).add(top, bottom, prompt)
        largest = sorted(parts, key=lambda number: -len(parts[number].tops))[:most]
        fewest = _ROWS_FOR_AN_INTERVAL if intervals else len(self) + 1
        means = {
            names[number] or "(none)": parts[number].mean(self._ends, fewest) for number in largest
        }
        return means, len(parts) - len(means)

    def average_by_order(self) -> dict[str, Mean]:
        """Return the mean points for each order of the answers."""
        return {
            order: points.mean(None, _ROWS_FOR_AN_INTERVAL)
            for order, points in sorted(self.orders.items())
        }


def drop_missing(column: Iterable[float]) -> list[float]:
    """Return the numbers of a column without missing ones."""
    return [number for number in column if not math.isnan(number)]


def _to_float(value: float | None) -> float:
    if value is None or not math.isfinite(value):
        return NONE
    return float(value)
