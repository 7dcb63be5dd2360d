"""Draw the charts of a run; empty charts are left out, and sizes do not grow with the run."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from judgegym.reports.run_page.drawing import ACCENT, BAR, TEXT, Chart, clean_label, drawing
from judgegym.reports.run_page.figures import Mean, RunFigures, drop_missing
from judgegym.statistics import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 24
_BAR_HEIGHT = 0.24
_MOST_VALUES = 12
"""A distribution of more different values than this is drawn in bins."""
_BINS = 24
_LENGTH_BINS, _SCORE_BINS = 32, 16
_DOT_SIZES = 8
_MEANS_OF_LENGTH = 8
_ROWS_OF_A_MEAN = 10
"""Fewest rows of a mean: means of fewer are mostly chance, so no line is drawn."""
_NARROWEST_GAP = 1 / 24
"""The narrowest gap of values as a share of the axis: labels of closer values would overlap."""


@dataclass(frozen=True, slots=True)
class ChartLabels:
    """The words in the charts' titles and labels.

    Attributes:
        headline: the headline metric, such as `win rate`.
        item: the name of a row: `row` or `rollout`.
        score: the name of its number: `score` or `reward`.
        length: the name of the text whose length is drawn, such as `answer`.
        intervals: whether bars have intervals; they have none if rows depend on each other, such
            as rollouts of a group.
    """

    headline: str
    item: str = "row"
    score: str = "score"
    length: str = "answer"
    intervals: bool = True


def draw_charts(figures: RunFigures, words: ChartLabels, *, overall: Mean | None) -> list[Chart]:
    """Draw the charts of a run.

    Args:
        figures: the numbers of its rows.
        words: the words of titles and labels.
        overall: the headline metric, drawn beside those of the categories.
    """
    drawn = [
        _draw_categories(figures, words, overall),
        _draw_distribution(figures.scores, words),
        _plot_length(figures, words),
        _draw_orders(figures),
        _draw_latencies(figures),
        _draw_costs(figures, words),
    ]
    return [chart for chart in drawn if chart is not None]


def _draw_categories(figures: RunFigures, words: ChartLabels, overall: Mean | None) -> Chart | None:
    means, left_out = figures.average_by_category(most=_MOST_BARS, intervals=words.intervals)
    if not means:
        return None
    metric = words.headline if figures.has_values else f"mean {words.score}"
    best_first = sorted(means.items(), key=lambda pair: -pair[1].value)
    bars = [] if overall is None else [("all", overall)]
    bars += [
        (clean_label(name), mean) for name, mean in best_first
    ]  # two names may be cut to one label
    note = f" {left_out} smaller categories are not drawn." if left_out else ""
    is_apart = overall is not None
    return _draw_bars(
        bars,
        f"{metric.capitalize()} by category",
        metric,
        item=words.item,
        first_is_apart=is_apart,
        note=note,
    )


def _draw_orders(figures: RunFigures) -> Chart | None:
    """Draw the points by order: without position bias both orders have the same."""
    means = figures.average_by_order()
    if len(means) < 2:
        return None
    note = ""
    if figures.in_both_orders:
        share = figures.disagreeing / figures.in_both_orders
        note = (
            f" The orders disagree for {figures.disagreeing} of {figures.in_both_orders} rows "
            f"({percent(share)}). Without position bias the bars are equal."
        )
    bars = [(clean_label(order.replace("_", " ")), mean) for order, mean in means.items()]
    return _draw_bars(bars, "Points by the order of the answers", "mean points", note=note)


def plot_by_position(figures: RunFigures) -> Chart | None:
    """Draw the mean points of the answers at each position; `None` if answers were not compared.

    Answers are shown at random positions, so without position bias the bars are equal except for
    chance.
    """
    import numpy as np

    positions, counts, points, scores = map(np.asarray, figures.looks)
    if len(set(positions)) < 2:
        return None
    names = {1: "shown first", 2: "shown second"} if counts.max() == 2 else {}  # games
    sizes, number = np.unique(counts, return_inverse=True)
    if (
        len(sizes) > 1
    ):  # only large groups have late positions, and their answers may be better or worse
        means = np.bincount(number, weights=points) / np.bincount(number)
        points = points.mean() + points - means[number]
    bars = []
    for position in sorted({*map(int, positions)})[:_MOST_BARS]:
        points_at_position = points[positions == position]
        bars.append(
            (
                names.get(position, f"place {position}"),
                Mean(float(points_at_position.mean()), len(points_at_position), None),
            )
        )
    has_score = ~np.isnan(scores)
    relative_positions = (positions[has_score] - 1) / np.maximum(counts[has_score] - 1, 1)
    rewards = scores[has_score]
    note = ""
    if len(sizes) > 1:
        note = " An answer is compared with those of calls that showed as many."
    note += " Without position bias the bars are equal but for chance."
    if len(rewards) > 2 and np.std(relative_positions) > 0 and np.std(rewards) > 0:
        correlation = round(np.corrcoef(relative_positions, rewards)[0, 1], 2) + 0.0
        note += f" The correlation of reward and place is {correlation:.2f}."
    return _draw_bars(bars, "Points by place", "mean points", item="answer", note=note)


def _draw_bars(
    bars: Sequence[tuple[str, Mean]],
    title: str,
    unit: str,
    *,
    item: str = "row",
    first_is_apart: bool = False,
    note: str,
) -> Chart:
    """Draw a bar for each mean, with its interval, from top to bottom."""
    means = [mean for _, mean in bars]
    positions, descriptions, ends = range(len(bars)), [], [0.0]
    with drawing(title, height=0.75 + _BAR_HEIGHT * len(bars)) as (axes, chart):
        colors = [ACCENT if first_is_apart and not position else BAR for position in positions]
        axes.barh(positions, [mean.value for mean in means], height=0.66, color=colors)
        for place, (name, mean) in enumerate(bars):
            bounds, interval = "", mean.interval
            ends.append(mean.value)
            if interval is not None:
                axes.plot([interval.low, interval.high], [place, place], color=TEXT, linewidth=1.1)
                ends += [interval.low, interval.high]
                bounds = f" ({interval.low:.3f} to {interval.high:.3f})"
            descriptions.append(f"{name}: {mean.value:.3f}{bounds} of {mean.rows}")
        axes.set_yticks(positions, [f"{name} ({mean.rows})" for name, mean in bars])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlim(min(ends) * 1.02, max(ends[1:]) * 1.02 if any(ends) else 1.0)
        axes.set_xlabel(unit)
        axes.grid(axis="x")
    intervals = ", with 95 % intervals" if any(mean.interval is not None for mean in means) else ""
    summary = f"{title}{intervals}; in brackets the number of {item}s. {'; '.join(descriptions)}."
    return {**chart, "description": f"{summary}{note}"}


def _draw_distribution(scores: array[float], words: ChartLabels) -> Chart | None:
    present_scores = drop_missing(scores)
    if not present_scores:
        return None
    counts = Counter(present_scores)
    values = sorted(counts)
    gap = min((high - low for low, high in pairwise(values)), default=1.0)
    with drawing(f"Distribution of {words.score}s") as (axes, chart):
        if len(counts) <= _MOST_VALUES and gap >= (values[-1] - values[0]) * _NARROWEST_GAP:
            axes.bar(values, [counts[value] for value in values], width=gap * 0.7, color=BAR)
            axes.set_xticks(values, [f"{value:.3g}" for value in values])
            summary = "; ".join(f"{value:.3g}: {counts[value]}" for value in values)
        else:
            heights, edges, _ = axes.hist(present_scores, bins=_BINS, color=BAR)
            most = max(range(_BINS), key=lambda index: float(heights[index]))
            span = f"from {edges[0]:.3g} to {edges[-1]:.3g}"
            count = int(heights[most])
            low = edges[most]
            high = edges[most + 1]
            summary = f"{span}, most ({count}) from {low:.3g} to {high:.3g}"
        axes.locator_params(axis="y", integer=True)
        _label_axes(axes, words.score, f"{words.item}s")
    return {**chart, "description": f"{chart['title']}: {summary}."}


def _plot_length(figures: RunFigures, words: ChartLabels) -> Chart | None:
    """Draw scores by length; a dot is a cell of a grid, so the size does not grow with rows."""
    import numpy as np

    lengths = np.asarray(figures.lengths)
    scores = np.asarray(figures.scores)
    has_score = ~np.isnan(scores)
    lengths, scores = lengths[has_score], scores[has_score]
    if len(lengths) < 2 or lengths.min() == lengths.max():
        return None
    levels = np.unique(scores)
    is_graded = len(levels) > _SCORE_BINS
    between = (levels[:-1] + levels[1:]) / 2  # each level has a bin of its own
    if is_graded:
        edges = np.linspace(levels[0], levels[-1], _SCORE_BINS + 1)
    else:
        edges = np.concatenate([[levels[0] - 0.5], between, [levels[-1] + 0.5]])
    length_edges = np.linspace(lengths.min(), lengths.max(), _LENGTH_BINS + 1)
    counts, _, _ = np.histogram2d(lengths, scores, bins=[length_edges, edges])
    columns, rows = np.nonzero(counts)
    sizes = counts[columns, rows]
    middles = (length_edges[:-1] + length_edges[1:]) / 2
    heights = (edges[:-1] + edges[1:]) / 2 if is_graded else levels
    with drawing(f"{words.score.capitalize()} against length") as (axes, chart):
        areas = np.ceil(_DOT_SIZES * sizes / sizes.max())
        for area in np.unique(areas):  # dots of one size share one shape
            dots = areas == area
            size = 4 + 100 * area / _DOT_SIZES
            axes.scatter(
                middles[columns[dots]],
                heights[rows[dots]],
                s=size,
                color=BAR,
                alpha=0.45,
                linewidths=0,
            )
        ordered = np.argsort(lengths, kind="stable")
        count = min(_MEANS_OF_LENGTH, len(ordered) // _ROWS_OF_A_MEAN)
        parts = np.array_split(ordered, count) if count > 2 else []
        centers = [lengths[part].mean() for part in parts]
        means = [scores[part].mean() for part in parts]
        axes.plot(centers, means, color=ACCENT, marker="o", markersize=3, linewidth=1.3)
        _label_axes(axes, f"characters of the {words.length}", words.score, grid="both")
    constant = scores.min() == scores.max()
    correlation = ""
    if not constant:
        coefficient = np.corrcoef(lengths, scores)[0, 1]
        correlation = f" Their correlation is {coefficient:.2f}."
    line_text = ""
    if parts:
        line_text = f"; the line is the mean of each of {len(parts)} equally large parts, by length"
    description = (
        f"{chart['title']}: a dot stands for the {words.item}s around it{line_text}.{correlation}"
    )
    return {**chart, "description": description}


def _draw_latencies(figures: RunFigures) -> Chart | None:
    calls = {
        "judge": drop_missing(figures.judge_seconds),
        "policy": drop_missing(figures.policy_seconds),
    }
    calls = {name: seconds for name, seconds in calls.items() if seconds}
    if not calls:
        return None
    import numpy as np

    descriptions = []
    with drawing("Latency of calls") as (axes, chart):
        for (name, seconds), color in zip(calls.items(), (BAR, ACCENT), strict=False):
            ordered = np.quantile(seconds, np.linspace(0, 1, 101))
            axes.plot(
                ordered,
                np.linspace(0, 100, 101),
                color=color,
                linewidth=1.5,
                label=f"{name} ({len(seconds)})",
            )
            descriptions.append(
                f"{name}: median {ordered[50]:.3g} s, 95 % within {ordered[95]:.3g} s, "
                f"{len(seconds)} calls"
            )
        axes.set_xlim(left=0)
        axes.legend(frameon=False, loc="best")
        _label_axes(axes, "seconds from the first request to the answer", "% of calls", grid="both")
    shown = (
        f"{chart['title']}, the share of calls answered within a time. {'; '.join(descriptions)}."
    )
    return {**chart, "description": shown}


def _draw_costs(figures: RunFigures, words: ChartLabels) -> Chart | None:
    costs = [cost for cost in drop_missing(figures.judge_costs) if cost > 0]
    if not costs:
        return None
    with drawing(f"Judge cost of a {words.item}") as (axes, chart):
        axes.hist(costs, bins=_BINS, color=BAR)
        _label_axes(axes, "US dollars", f"{words.item}s")
    total = math.fsum(costs)
    missing = len(figures) - len(drop_missing(figures.judge_costs))
    unknown = f" {missing} are not known." if missing else ""
    summary = f"{total:.4g} US dollars for {len(costs)}, the mean {total / len(costs):.3g}"
    return {**chart, "description": f"{chart['title']}: {summary}.{unknown}"}


def _label_axes(
    axes: Axes, below: str, beside: str, *, grid: Literal["both", "x", "y"] = "y"
) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    axes.grid(axis=grid)
