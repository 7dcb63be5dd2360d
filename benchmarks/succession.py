"""How often the interval of a judge's succession holds the true shift, and how good the planned rows are.

Rows of LLMBar's 419 pairs are resampled; the value of a row is 1 if the judge prefers the first
response in both orders, ½ if its orders differ, else 0. The true shift is that of all 419 rows.
`rows` is how many make the shift ± .03 or ± .05, computed from all rows. `half width` is the mean
half width of the interval over that many resampled rows. For pilots of each size: the median of
their numbers of rows, the share of pilots whose number is within 20 % of `rows`, and the share
whose 90 % range holds `rows`. Required: coverage of at least .92 at every size; the half width
squared, and the median of pilots, within 20 %; ranges that hold in at least .85. The share of
pilots within 20 % is printed only: 50 rows are too few to know a variance to 20 %.

    python -m benchmarks.succession [--resamples 500]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.juries import RecordedVerdicts
from judgegym.statistics.intervals import UNIT
from judgegym.statistics.paired import (
    RatioTerms,
    RowsForWidth,
    paired_intervals,
    rows_for_half_width,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

OLD = ("GPT-4", "Vanilla")
SUCCESSORS = (("GPT-4", "Metrics_Reference"), ("PaLM2", "Metrics_Reference"), ("PaLM2", "Vanilla"))
SIZES = (50, 100, 200, 400)
HALF_WIDTHS = (0.03, 0.05)
LEAST_COVERAGE, LEAST_RANGE, CLOSE = 0.92, 0.85, 0.2


def terms(values: Column) -> RatioTerms:
    """The terms of a mean."""
    return RatioTerms(values, np.ones(len(values)))


def coverage(old: Column, new: Column, size: int, resamples: int) -> tuple[float, float]:
    """The share of intervals that hold the true shift, and their mean half width."""
    truth, held, widths = float((new - old).mean()), 0, list[float]()
    for number in range(resamples):
        rows = np.random.default_rng([number, size]).integers(0, len(old), size)
        intervals = paired_intervals(terms(old[rows]), terms(new[rows]), ends=UNIT)
        if isinstance(intervals, str):
            continue
        shift = intervals.difference
        held += shift.low <= truth <= shift.high
        widths.append((shift.high - shift.low) / 2)
    return held / resamples, float(np.mean(widths))


@dataclass(frozen=True, slots=True)
class Pilots:
    """Numbers of rows by pilots of one size, compared with that by all rows.

    Attributes:
        median: the median number.
        near: the share of pilots within 20 %.
        held: the share of pilots whose 90 % range holds the number by all rows.
    """

    median: float
    near: float
    held: float


def plan_rows(old: Column, new: Column, half_width: float) -> RowsForWidth:
    """The rows that make the shift ± this half width."""
    return rows_for_half_width(terms(old), terms(new), half_width, ends=UNIT)


def plan_by_pilots(
    old: Column, new: Column, half_width: float, size: int, resamples: int
) -> Pilots:
    """Plan the rows by pilots of this size."""
    true_rows = plan_rows(old, new, half_width).rows
    assert true_rows is not None
    counts, held = list[int](), 0
    for number in range(resamples):
        rows = np.random.default_rng([number, size, 1]).integers(0, len(old), size)
        pilot = plan_rows(old[rows], new[rows], half_width)
        assert pilot.rows is not None and pilot.interval is not None
        counts.append(pilot.rows)
        held += pilot.interval.low <= true_rows <= pilot.interval.high
    near = np.abs(np.divide(counts, true_rows) - 1) <= CLOSE
    return Pilots(float(np.median(counts)), float(near.mean()), held / resamples)


def lines(resamples: int) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether each is as required."""
    votes = RecordedVerdicts.read().votes
    old = (votes[OLD] + 1) / 2
    for successor in SUCCESSORS:
        new = (votes[successor] + 1) / 2
        name = " ".join(successor)
        yield f"{name}: shift {float((new - old).mean()):+.4f}", True
        for size in SIZES:
            share, width = coverage(old, new, size, resamples)
            yield (
                f"  {size} rows: coverage {share:.3f}, half width {width:.4f}",
                share >= LEAST_COVERAGE,
            )
        for half_width in HALF_WIDTHS:
            rows = plan_rows(old, new, half_width).rows
            assert rows is not None
            _, width = coverage(old, new, rows, resamples)
            yield (
                f"  ± {half_width}: {rows} rows, half width {width:.4f}",
                abs((width / half_width) ** 2 - 1) <= CLOSE,
            )
            for size in SIZES:
                pilots = plan_by_pilots(old, new, half_width, size, resamples)
                yield (
                    f"    pilots of {size}: median {pilots.median:.0f}, within 20 % "
                    f"{pilots.near:.1%}, range holds {pilots.held:.1%}",
                    abs(pilots.median / rows - 1) <= CLOSE and pilots.held >= LEAST_RANGE,
                )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--resamples", type=int, default=500)
    missed = 0
    for text, is_met in lines(parser.parse_args(argv).resamples):
        missed += not is_met
        print(text if is_met else f"{text}  NOT MET", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
