"""How often intervals hold the truth, and how wide they are beside the percentile bootstrap, which they replace.

Rows are drawn with a known truth, and `mean_interval` or `paired_intervals` makes an interval, as
`evaluate`, `score`, `compare` and the pages do; so many times in each cell. Cells of rates need no
draws: each number of hits has its probability. `n` is the number of independent rows; of clustered
rows it is the number of prompts, with one to seven responses each, or four. `width` is the mean
width over that of the bootstrap, which is too narrow where values lie at one end. `none` counts
intervals without a width.

    python -m benchmarks.interval_coverage [--runs 1000] [--seed 0] [--results FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.measured import Measured, report, results_option
from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import mean_interval
from judgegym.statistics.paired import PairedIntervals, RatioTerms, paired_intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float64]
    Draw: TypeAlias = Callable[[np.random.Generator, int], Column]
    """Values of so many rows; of two sides with a row for each side."""

SIZES = (20, 50, 200)
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
LEAST, LEAST_OF_20, WIDEST = 0.92, 0.90, 1.15
_MIDDLE = (0.3, 0.5, 0.7)
_RESAMPLES = 400
_COMPARED = 50  # runs of a cell in which the bootstrap is drawn, too
_LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


@dataclass
class Cell:
    """What the intervals of one cell did.

    Attributes:
        part: what was estimated.
        name: how values were drawn.
        rows: independent rows, or prompts.
        truth: the true value.
        held: for each run, whether the interval held the truth.
        weights: the probability of each run.
        widths: of the intervals.
        before: of the bootstrap, of the first runs.
    """

    part: str
    name: str
    rows: int
    truth: float
    held: list[bool] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)

    def add(self, found: Interval | None, weight: float = 1.0) -> None:
        """Count one run."""
        assert found is not None, "several rows have an interval"
        self.held.append(found.low - 1e-9 <= self.truth <= found.high + 1e-9)
        self.weights.append(weight)
        self.widths.append(found.high - found.low)

    @property
    def coverage(self) -> float:
        """Return the share of intervals that hold the truth."""
        return float(np.average(self.held, weights=self.weights))

    @property
    def width(self) -> float:
        """Return the mean width over that of the bootstrap, over the runs that have one."""
        count = len(self.before)
        return float(np.average(self.widths[:count], weights=self.weights[:count]) / self._before)

    @property
    def _before(self) -> float:
        return float(np.average(self.before, weights=self.weights[: len(self.before)])) or math.nan

    @property
    def flat(self) -> int:
        """Return the number of intervals without a width."""
        return sum(width <= 0 for width in self.widths)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=1000, help="of each cell (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    results_option(parser)
    options = parser.parse_args()
    cells = []
    print(f"{'':16} {'':34} {'truth':>7} {'n':>4} {'coverage':>8} {'width':>6} {'none':>5}")
    for cell in measure(options.runs, options.seed):
        cells.append(cell)
        print(line_of(cell), flush=True)
    report(requirements(cells), options.results)


def line_of(cell: Cell) -> str:
    """Return a cell's line of the table."""
    return (
        f"{cell.part:16} {cell.name:34} {cell.truth:7.4f} {cell.rows:4} {cell.coverage:8.3f} "
        f"{cell.width:6.3f} "
        f"{cell.flat:5}"
    )


def measure(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Yield each cell when it is measured; a cell's numbers depend on the seed and its own name alone."""
    for rate in RATES:
        for rows in SIZES:
            yield _rate(Cell("rate", "independent rows", rows, rate), seed)
    for part, draws, run in (
        ("mean", _MEANS, _mean),
        ("paired rates", _PAIRED_RATES, _paired),
        ("paired scores", _PAIRED_SCORES, _paired),
        ("clustered", _CLUSTERED, _clustered),
    ):
        for name, (truth, draw) in draws.items():
            for rows in SIZES:
                yield run(Cell(part, name, rows, truth), draw, runs, seed)


def _generator(cell: Cell, seed: int) -> np.random.Generator:
    return np.random.default_rng(
        [seed, *f"{cell.part} {cell.name} {cell.truth} {cell.rows}".encode()]
    )


def _bootstrap(generator: np.random.Generator, totals: Column, weights: Column) -> float:
    """Return the width of the percentile bootstrap, of which this is all that it needs."""
    drawn = generator.multinomial(
        len(totals), np.full(len(totals), 1 / len(totals)), size=_RESAMPLES
    )
    low, high = np.quantile((drawn @ totals) / (drawn @ weights), [0.025, 0.975])
    return float(high - low)


def _rate(cell: Cell, seed: int) -> Cell:
    """Every number of hits with its probability."""
    generator, logs = (
        _generator(cell, seed),
        [math.lgamma(count + 1) for count in range(cell.rows + 1)],
    )
    for hits in range(cell.rows + 1):
        misses = cell.rows - hits
        chance = logs[-1] - logs[hits] - logs[misses]
        chance += hits * math.log(cell.truth) + misses * math.log1p(-cell.truth)
        values = np.repeat([1.0, 0.0], [hits, misses])
        cell.add(mean_interval(values), math.exp(chance))
        cell.before.append(_bootstrap(generator, values, np.ones(cell.rows)))
    return cell


def _mean(cell: Cell, draw: Draw, runs: int, seed: int) -> Cell:
    generator = _generator(cell, seed)
    for run in range(runs):
        values = draw(generator, cell.rows)
        cell.add(mean_interval(values))
        if run < _COMPARED:
            cell.before.append(_bootstrap(generator, values, np.ones(cell.rows)))
    return cell


def _paired(cell: Cell, draw: Draw, runs: int, seed: int) -> Cell:
    generator, ones = _generator(cell, seed), np.ones(cell.rows)
    for run in range(runs):
        first, second = draw(generator, cell.rows)
        found = paired_intervals(RatioTerms(first, ones), RatioTerms(second, ones))
        assert isinstance(found, PairedIntervals), found
        cell.add(found.difference)
        if run < _COMPARED:
            cell.before.append(_bootstrap(generator, second - first, ones))
    return cell


def _clustered(cell: Cell, draw: Draw, runs: int, seed: int) -> Cell:
    """Draw a row for each prompt: how many responses it has, and their sum."""
    generator = _generator(cell, seed)
    for run in range(runs):
        counts, sums = draw(generator, cell.rows)
        prompts = np.repeat(np.arange(cell.rows), counts.astype(int))
        # Of responses only the sum matters: each has the mean of its prompt.
        cell.add(mean_interval(np.repeat(sums / counts, counts.astype(int)), clusters=prompts))
        if run < _COMPARED:
            cell.before.append(_bootstrap(generator, sums, counts))
    return cell


def _levels(*shares: float) -> tuple[float, Draw]:
    """Scores on five levels."""
    return float(_LEVELS @ shares), lambda generator, rows: generator.choice(
        _LEVELS, rows, p=shares
    )


def _two_rates(first: float, second: float, together: float = 0.0) -> tuple[float, Draw]:
    """Outcomes of two sides; a share of the rows is as hard for both."""

    def draw(generator: np.random.Generator, rows: int) -> Column:
        own, other = generator.random((2, rows))
        as_hard = np.where(generator.random(rows) < together, own, other)
        return np.stack([own < first, as_hard < second]).astype(float)

    return second - first, draw


def _two_scores(shift: float, jumps: float) -> tuple[float, Draw]:
    """Scores with little noise, of which the second side fails now and then."""

    def draw(generator: np.random.Generator, rows: int) -> Column:
        first = 0.6 + 0.3 * generator.random(rows)
        second = first - shift + 0.05 * (generator.random(rows) - 0.5)
        return np.stack([first, np.where(generator.random(rows) < jumps, 0.0, second)])

    return -shift * (1 - jumps) - 0.75 * jumps, draw


def _skewed_scores(generator: np.random.Generator, rows: int) -> Column:
    values: Column = np.where(
        generator.random((2, rows)) < [[0.9], [0.8]], 1.0, generator.random((2, rows))
    )
    return values


def _responses(rate: float, spread: float, sizes: tuple[int, ...] = (4,)) -> tuple[float, Draw]:
    """Right and wrong responses; a prompt's own rate has a Beta distribution, which has no spread at infinity."""

    def draw(generator: np.random.Generator, prompts: int) -> Column:
        counts = generator.choice(sizes, prompts)
        chances: Column = np.full(prompts, rate)
        if math.isfinite(spread):
            chances = generator.beta(rate * spread, (1 - rate) * spread, prompts)
        return np.stack([counts, generator.binomial(counts, chances)]).astype(float)

    return rate, draw


def _decisive(generator: np.random.Generator, rows: int) -> Column:
    """Games that count three times where they are decisive, as on Arena-Hard, won in four of five."""
    weights = generator.choice([2.0, 6.0], rows)
    return np.stack([weights, weights * (generator.random(rows) < 0.8)])


_MEANS: dict[str, tuple[float, Draw]] = {
    "90 % at the top, others anywhere": (
        0.95,
        lambda generator, rows: np.where(generator.random(rows) < 0.9, 1.0, generator.random(rows)),
    ),
    "90 % at the bottom, others anywhere": (
        0.05,
        lambda generator, rows: np.where(generator.random(rows) < 0.9, 0.0, generator.random(rows)),
    ),
    "90 % at 5 of 1 to 5": _levels(0.01, 0.01, 0.02, 0.06, 0.9),
    "90 % at 5, others at 1": _levels(0.1, 0.0, 0.0, 0.0, 0.9),
    "95 % at 5, others below": _levels(0.02, 0.0, 0.01, 0.02, 0.95),
    "1 to 5": _levels(0.1, 0.2, 0.3, 0.25, 0.15),
    "lost, tied, won": _levels(0.35, 0.0, 0.2, 0.0, 0.45),
    "in the middle": (0.5, lambda generator, rows: generator.beta(2, 2, rows)),
}
_PAIRED_RATES = {
    ".99 and .95": _two_rates(0.99, 0.95),
    ".95 and .99, as hard for both": _two_rates(0.95, 0.99, 0.9),
    ".5 and .6": _two_rates(0.5, 0.6),
    ".5 and .5, as hard for both": _two_rates(0.5, 0.5, 0.8),
    ".02 and .98": _two_rates(0.02, 0.98),
}
_PAIRED_SCORES: dict[str, tuple[float, Draw]] = {
    "90 % and 80 % at the top": (-0.05, _skewed_scores),
    "little noise": _two_scores(0.02, 0.0),
    "little noise, 5 % failures": _two_scores(0.02, 0.05),
}
_CLUSTERED: dict[str, tuple[float, Draw]] = {
    "rate, responses independent": _responses(0.5, math.inf),
    "rate, prompts differ": _responses(0.5, 1.0),
    "rate near 1, prompts differ": _responses(0.95, 2.0),
    "rate near 0, independent": _responses(0.02, math.inf),
    "one to seven responses": _responses(0.8, 2.0, (1, 2, 4, 7)),
    "games that count once or thrice": (0.8, _decisive),
}


def requirements(
    cells: list[Cell], slack: Callable[[float], float] = lambda share: 0.0
) -> Iterator[Measured]:
    """Yield what is required of the cells.

    Args:
        cells: those of `measure`.
        slack: how far a cell's share may miss the required one, which few runs need; those of rates
            need none.
    """

    def least(work: str, chosen: list[Cell], required: float) -> Measured:
        worst = min(chosen, key=lambda cell: cell.coverage)
        room = 0.0 if worst.part == "rate" else slack(required)
        name = f"required (least: {worst.name}, {worst.truth:.3g}, n = {worst.rows})"
        at_least = 1 - room / required
        return Measured(
            "intervals", work, "least coverage", worst.coverage, name, required, at_least=at_least
        )

    for part in ("rate", "paired rates", "paired scores", "clustered"):
        chosen = [cell for cell in cells if cell.part == part]
        yield least(f"{part}, {len(chosen)} cells", chosen, LEAST)
    means = [cell for cell in cells if cell.part == "mean"]
    yield least("means, n = 20", [cell for cell in means if cell.rows == min(SIZES)], LEAST_OF_20)
    yield least("means, n = 50 and 200", [cell for cell in means if cell.rows > min(SIZES)], LEAST)
    flat = sum(cell.flat for cell in cells)
    total = sum(len(cell.widths) for cell in cells)
    yield Measured(
        "intervals", "all cells", "without a width", flat, "intervals", total, at_most=0.0
    )
    middle = [cell for cell in cells if cell.part == "rate" and cell.truth in _MIDDLE]
    width = max(cell.width for cell in middle)
    yield Measured(
        "intervals",
        "rates from .3 to .7",
        "of the width",
        width,
        "the bootstrap",
        1.0,
        at_most=WIDEST,
    )


if __name__ == "__main__":
    main()
