"""How often the intervals of corrected numbers hold the truth, and how wide they are beside labels only.

Rows are drawn with a known truth and the judge's errors, some of them are labelled at random, and
`corrected_mean` makes an interval; so many times in each cell. The judge of a rate errs as GPT-4
(good), PaLM 2 (medium) and ChatGPT (bad) did on LLMBar's 419 pairs under the Vanilla prompt, shown
in both orders: `LLMBAR` counts the pairs that they judged right in both orders, in one, and in
none. Scores from 1 to 5 are planted, with these correlations; those of `top` are 5 in 95 % of the
rows, of judges that see all, half or none of the others. The naive interval takes the judge's
values for the truth. `width` is the mean width over that of labels only (Wilson's interval, or that
of a mean). `false` and `found` are the shares of intervals of a difference that exclude 0.

    python -m benchmarks.corrected_coverage [--runs 2000] [--seed 0] [--results FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.measured import Measured, report, results_option
from judgegym.statistics.corrected import (
    TOP_UP,
    CorrectedMean,
    MeanKind,
    corrected_mean,
    labels_needed,
    labels_to_add,
)
from judgegym.statistics.intervals import UNIT, Ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float64]
    Draw: TypeAlias = Callable[[], tuple[Column, Column]]
    """The truth and the judge's values of `ROWS` rows."""

ROWS = 500
PILOT = 30
LLMBAR = {"good": (339, 30, 50), "medium": (235, 119, 65), "bad": (96, 143, 180)}
SCORES = {"good": 0.77, "medium": 0.47, "bad": 0.12}
SLOPES = {"good": 0.795, "medium": 0.49, "bad": 0.127}
"""Of the judge's score by the true one; rounding and the ends of the scale take the rest of the correlation."""


LEVELS = np.arange(1.0, 6.0)
ENDS = Ends(1, 5)
TOP = np.array([0.02, 0.01, 0.01, 0.01, 0.95])
SEEN = {
    "sees all": (0.95, 0.0),
    "sees half": (0.5, 0.02),
    "sees none": (0.0, 0.05),
    "says 5": (0.0, 0.0),
}
"""Which share of the rows below 5 a judge rates as they are, and which share of the others it rates as any level."""


@dataclass
class Cell:
    """What the intervals of one cell did.

    Attributes:
        part: what was estimated.
        judge: the judge.
        truth: the true value.
        labels: how many labels there were; of a top-up, at first.
        held: for each run, whether the interval held the truth.
        naive: whether the naive interval did.
        widths: of the intervals.
        only: the widths of the intervals of labels only.
        settled: whether the interval excluded 0.
        used: how many labels a run had in the end.
        reached: whether the half-width was at most 1.2 times the one that was planned.
    """

    part: str
    judge: str
    truth: float
    labels: int
    held: list[bool] = field(default_factory=list)
    naive: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    only: list[float] = field(default_factory=list)
    settled: list[bool] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    reached: list[bool] = field(default_factory=list)

    def add(self, found: CorrectedMean, judge: Column) -> None:
        """Count one run."""
        low, high = found.interval.low, found.interval.high
        naive = 1.96 * judge.std(ddof=1) / math.sqrt(len(judge))
        self.held.append(low <= self.truth <= high)
        self.naive.append(abs(judge.mean() - self.truth) <= naive)
        self.widths.append(high - low)
        self.only.append(found.labels_only.interval.high - found.labels_only.interval.low)
        self.settled.append(not low <= 0 <= high)
        self.used.append(found.labels)

    @property
    def coverage(self) -> float:
        """Return the share of intervals that hold the truth."""
        return float(np.mean(self.held))

    @property
    def width(self) -> float:
        """Return the mean width over that of labels only."""
        return float(np.mean(self.widths) / np.mean(self.only))

    @property
    def excluded(self) -> float:
        """Return the share of intervals that exclude 0."""
        return float(np.mean(self.settled))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=2000, help="of each cell (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    results_option(parser)
    options = parser.parse_args()
    cells = []
    print(
        f"{'':12} {'judge':13} {'truth':>5} {'labels':>6} {'coverage':>8} {'naive':>6} "
        f"{'width':>6}  and"
    )
    for cell in measure(options.runs, options.seed):
        cells.append(cell)
        print(line_of(cell), flush=True)
    report(requirements(cells), options.results)


def line_of(cell: Cell) -> str:
    """Return a cell's line of the table."""
    said = ""
    if cell.part == "difference":
        said = f"{'false' if cell.truth == 0 else 'found'} {cell.excluded:.3f}"
    if cell.part in ("top-up", "plan"):
        said = f"{np.mean(cell.used):.0f} labels"
    if cell.part == "plan":
        said += f", within 1.2 times the width in {np.mean(cell.reached):.3f}"
    return (
        f"{cell.part:12} {cell.judge:13} {cell.truth:5.2f} {cell.labels:6} {cell.coverage:8.3f} "
        f"{np.mean(cell.naive):6.3f} {cell.width:6.3f}  {said}".rstrip()
    )


def measure(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Yield each cell when it is measured; a cell's numbers depend on the seed and its own name alone."""
    for judge in LLMBAR:
        for rate in (0.5, 0.65, 0.8):
            for labels in (30, 60, 120):
                cell = Cell("rate", judge, rate, labels)
                yield _rates(cell, runs, _llmbar(cell, seed))
    for judge, right in {
        "near-perfect": (0.98, 0.98),
        "one-sided": (1.0, 0.4),
        "lenient": (0.99, 0.6),
    }.items():
        for rate in (0.5, 0.8, 0.95):
            for labels in (30, 60, 120):
                cell = Cell("rate", judge, rate, labels)
                yield _rates(cell, runs, _planted(cell, right, seed))
    for judge in SCORES:
        for labels in (30, 60, 120):
            cell = Cell("score", judge, 0.0, labels)
            yield _means(cell, runs, seed)
    for judge in SEEN:
        for labels in (30, 60, 120):
            cell = Cell("top", judge, 0.0, labels)
            yield _at_the_top(cell, runs, seed)
    for judge in LLMBAR:
        for difference in (0.0, 0.1):
            for labels in (30, 60, 120):
                yield _differences(Cell("difference", judge, difference, labels), runs, seed)
    for judge in LLMBAR:
        for rate in (0.5, 0.65, 0.8):
            yield _topped_up(Cell("top-up", judge, rate, PILOT), runs, seed)
    for judge in LLMBAR:
        for rate in (0.5, 0.65, 0.8):
            yield _planned(Cell("plan", judge, rate, PILOT), runs, seed)


def _generator(cell: Cell, seed: int) -> np.random.Generator:
    name = f"{cell.part} {cell.judge} {cell.truth} {cell.labels}".encode()
    return np.random.default_rng([seed, *name])


def _judged(generator: np.random.Generator, judge: str, truth: Column) -> Column:
    """Return the judge's values of rows that are won (1) or lost (0); 0.5 where it was right in one order."""
    counts = np.array(LLMBAR[judge])
    right = generator.choice([1.0, 0.5, 0.0], len(truth), p=counts / counts.sum())
    values: Column = np.where(truth == 1, right, 1 - right)
    return values


def _llmbar(cell: Cell, seed: int) -> Draw:
    generator = _generator(cell, seed)

    def draw() -> tuple[Column, Column]:
        truth = (generator.random(ROWS) < cell.truth).astype(float)
        return truth, _judged(generator, cell.judge, truth)

    return draw


def _planted(cell: Cell, right: tuple[float, float], seed: int) -> Draw:
    """Draw rows whose judge is right of wins and of losses with these probabilities."""
    generator = _generator(cell, seed)

    def draw() -> tuple[Column, Column]:
        truth = (generator.random(ROWS) < cell.truth).astype(float)
        is_right = generator.random(ROWS) < np.where(truth == 1, *right)
        return truth, np.where(is_right, truth, 1 - truth)

    return draw


def _labelled(truth: Column, count: int) -> Column:
    """Return the labels of the first rows: rows are drawn independently, so these are a random sample."""
    return np.where(np.arange(len(truth)) < count, truth, np.nan)


def _estimate(
    judge: Column, truth: Column, count: int, kind: MeanKind = "rate", ends: Ends | None = None
) -> CorrectedMean:
    found = corrected_mean(judge, _labelled(truth, count), kind=kind, ends=ends)
    assert isinstance(found, CorrectedMean), found
    return found


def _rates(cell: Cell, runs: int, draw: Draw) -> Cell:
    for _ in range(runs):
        truth, judge = draw()
        cell.add(_estimate(judge, truth, cell.labels), judge)
    return cell


def _means(cell: Cell, runs: int, seed: int) -> Cell:
    """Scores from 1 to 5, and a judge that is half a point lenient, with the correlation of its name."""
    generator, slope = _generator(cell, seed), SLOPES[cell.judge]
    shares = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    cell.truth = float(LEVELS @ shares)
    deviation = math.sqrt(float((LEVELS - cell.truth) ** 2 @ shares))
    noise = deviation * math.sqrt(1 - slope**2)
    for _ in range(runs):
        truth = generator.choice(LEVELS, ROWS, p=shares)
        middle = cell.truth + 0.5 + slope * (truth - cell.truth)
        judge = np.clip(np.round(middle + noise * generator.standard_normal(ROWS)), 1, 5)
        cell.add(_estimate(judge, truth, cell.labels, "mean", ENDS), judge)
    return cell


def _at_the_top(cell: Cell, runs: int, seed: int) -> Cell:
    """Scores of which nearly all are the highest."""
    generator, (seen, wrong) = _generator(cell, seed), SEEN[cell.judge]
    cell.truth = float(LEVELS @ TOP)
    for _ in range(runs):
        truth = generator.choice(LEVELS, ROWS, p=TOP)
        judge = np.where(generator.random(ROWS) < seen, truth, 5.0)
        judge = np.where(
            (truth == 5.0) & (generator.random(ROWS) < wrong), generator.choice(LEVELS, ROWS), judge
        )
        cell.add(_estimate(judge, truth, cell.labels, "mean", ENDS), judge)
    return cell


def _differences(cell: Cell, runs: int, seed: int) -> Cell:
    """Two systems that differ on 36 % of the rows, each row judged for each of them."""
    generator, differing = _generator(cell, seed), 0.36
    for _ in range(runs):
        first = (generator.random(ROWS) < 0.55 - cell.truth / 2).astype(float)
        better = (
            (differing + cell.truth) / 2 / (0.45 + cell.truth / 2)
        )  # of rows that the first system loses
        worse = (differing - cell.truth) / 2 / (0.55 - cell.truth / 2)
        changes = generator.random(ROWS) < np.where(first == 0, better, worse)
        second = np.where(changes, 1 - first, first)
        judges = (_judged(generator, cell.judge, first), _judged(generator, cell.judge, second))
        labels = (_labelled(first, cell.labels), _labelled(second, cell.labels))
        found = corrected_mean(
            judges[1] - judges[0], labels[1] - labels[0], kind="mean", ends=UNIT.difference_ends
        )
        assert isinstance(found, CorrectedMean), found
        cell.add(found, judges[1] - judges[0])
    return cell


def _topped_up(cell: Cell, runs: int, seed: int, half_width: float = 0.09) -> Cell:
    """Ten more labels at a time until the interval is narrow enough."""
    draw = _llmbar(cell, seed)
    for _ in range(runs):
        truth, judge = draw()
        found = _estimate(judge, truth, PILOT)
        while more := labels_to_add(found, half_width):
            found = _estimate(judge, truth, found.labels + more)
        cell.add(found, judge)
    return cell


def _planned(cell: Cell, runs: int, seed: int, half_width: float = 0.09) -> Cell:
    """As many labels as a pilot of 30 says."""
    draw = _llmbar(cell, seed)
    for _ in range(runs):
        truth, judge = draw()
        needed = labels_needed(_estimate(judge, truth, PILOT), half_width).expected
        found = _estimate(judge, truth, max(PILOT, needed or ROWS))
        cell.add(found, judge)
        cell.reached.append(found.half_width <= 1.2 * half_width)
    return cell


def requirements(
    cells: list[Cell], slack: Callable[[float], float] = lambda share: 0.0
) -> Iterator[Measured]:
    """Yield what is required of the cells.

    Args:
        cells: those of `measure`.
        slack: how far a cell's share may miss the required one, which few runs need.
    """

    def least(work: str, chosen: list[Cell], required: float) -> Measured:
        worst = min(chosen, key=lambda cell: cell.coverage)
        naive = np.mean([np.mean(cell.naive) for cell in chosen])
        name = (
            f"required (the naive interval's mean is {naive:.3f}; least: {worst.judge} "
            f"{worst.truth:g}/{worst.labels})"
        )
        at_least = 1 - slack(required) / required
        return Measured(
            "corrected numbers",
            work,
            "least coverage",
            worst.coverage,
            name,
            required,
            at_least=at_least,
        )

    def widest(work: str, chosen: list[Cell], required: float) -> Measured:
        width = max(cell.width for cell in chosen)
        return Measured(
            "corrected numbers",
            work,
            "of labels only's width",
            width,
            "required",
            required,
            at_most=1.0,
        )

    rates = [cell for cell in cells if cell.part == "rate" and cell.judge in LLMBAR]
    planted = [cell for cell in cells if cell.part == "rate" and cell.judge not in LLMBAR]
    yield least("rates, 27 cells", rates, 0.92)
    mean = float(np.mean([cell.coverage for cell in rates]))
    shares = 1 - slack(0.945) / math.sqrt(len(rates)) / 0.945
    yield Measured(
        "corrected numbers",
        "rates, 27 cells",
        "mean coverage",
        mean,
        "required",
        0.945,
        at_least=shares,
    )
    yield least("rates, near-perfect and one-sided judges", planted, 0.94)
    sixty = [cell for cell in rates if cell.labels == 60]
    for rates_of, required in (((0.5, 0.65), 0.85), ((0.8,), 0.92)):
        chosen = [cell for cell in sixty if cell.judge == "good" and cell.truth in rates_of]
        yield widest(
            f"rates, good judge, {' and '.join(map(str, rates_of))}, 60 labels", chosen, required
        )
    for judge, required in (("medium", 1.02), ("bad", 1.10)):
        yield widest(
            f"rates, {judge} judge, 60 labels",
            [cell for cell in sixty if cell.judge == judge],
            required,
        )
    scores = [cell for cell in cells if cell.part == "score"]
    yield least("scores from 1 to 5", scores, 0.92)
    yield least(
        "scores from 1 to 5, 95 % at the top", [cell for cell in cells if cell.part == "top"], 0.92
    )
    for judge, required in (("good", 0.80), ("medium", 0.95), ("bad", 1.02)):
        chosen = [cell for cell in scores if cell.judge == judge and cell.labels == 60]
        yield widest(f"scores, {judge} judge (r {SCORES[judge]}), 60 labels", chosen, required)
    differences = [cell for cell in cells if cell.part == "difference"]
    yield least("paired differences", differences, 0.93)
    false = max(cell.excluded for cell in differences if cell.truth == 0)
    most = 1 + slack(0.065) / 0.065
    yield Measured(
        "corrected numbers", "paired differences", "false", false, "required", 0.065, at_most=most
    )
    chosen = [cell for cell in differences if cell.judge == "good" and cell.labels == 60]
    yield widest("paired differences, good judge, 60 labels", chosen, 0.85)
    work = f"{PILOT} labels, {TOP_UP} more until ± .09"
    yield least(work, [cell for cell in cells if cell.part == "top-up"], 0.92)
    plans = [cell for cell in cells if cell.part == "plan"]
    yield least("as many labels as a pilot of 30 says for ± .09", plans, 0.92)
    reached = min(float(np.mean(cell.reached)) for cell in plans)
    at_least = 1 - slack(0.80) / 0.80
    work = "as many labels as a pilot of 30 says"
    yield Measured(
        "corrected numbers", work, "within 1.2 times", reached, "required", 0.80, at_least=at_least
    )


if __name__ == "__main__":
    main()
