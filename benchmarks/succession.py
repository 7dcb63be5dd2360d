"""How often the interval of a judge's succession holds the true shift, and how good the planned rows are.

Rows of LLMBar's 419 pairs are resampled; the value of a row is 1 if the judge prefers the first
response in both orders, ½ if its orders differ, else 0. The true shift is that of all 419 rows.
`rows` is how many make the shift ± .03, from all rows and (median of the resamples) from a pilot of
50; `half width` is the mean one at the former; `range` is how often the pilot's 90 % range holds
it. Required: coverage of at least .92 at every size, both medians within 20 %, and a range that
holds in at least .85.

    python -m benchmarks.succession [--resamples 500]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.juries import RecordedVerdicts
from judgegym.statistics.intervals import UNIT
from judgegym.statistics.paired import RatioTerms, paired_intervals, rows_for_half_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

OLD = ("GPT-4", "Vanilla")
SUCCESSORS = (("GPT-4", "Metrics_Reference"), ("PaLM2", "Metrics_Reference"), ("PaLM2", "Vanilla"))
SIZES = (50, 100, 200, 400)
PILOT, HALF_WIDTH = 50, 0.03
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


def planned_rows(old: Column, new: Column, resamples: int) -> tuple[int, float, float]:
    """The rows by all rows, the median by pilots, and the share of ranges that hold the former."""
    needed = rows_for_half_width(terms(old), terms(new), HALF_WIDTH)
    assert needed.rows is not None
    counts, held = list[int](), 0
    for number in range(resamples):
        rows = np.random.default_rng([number, 1]).integers(0, len(old), PILOT)
        pilot = rows_for_half_width(terms(old[rows]), terms(new[rows]), HALF_WIDTH)
        if pilot.rows is None or pilot.interval is None:
            continue
        counts.append(pilot.rows)
        held += pilot.interval.low <= needed.rows <= pilot.interval.high
    return needed.rows, float(np.median(counts)), held / resamples


def lines(resamples: int) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether each is as required."""
    votes = RecordedVerdicts.read().votes
    old = (votes[OLD] + 1) / 2
    for successor in SUCCESSORS:
        new = (votes[successor] + 1) / 2
        name = " ".join(successor)
        for size in SIZES:
            share, width = coverage(old, new, size, resamples)
            text = f"{name:<24} {size:>4} rows: coverage {share:.3f}, half width {width:.4f}"
            yield text, share >= LEAST_COVERAGE
        rows, median, held = planned_rows(old, new, resamples)
        _, width = coverage(old, new, rows, resamples)
        is_close = all(
            abs(ratio - 1) <= CLOSE for ratio in (median / rows, (width / HALF_WIDTH) ** 2)
        )
        yield (
            f"{name:<24} ± {HALF_WIDTH}: {rows} rows (pilots: {median:.0f}), half width "
            f"{width:.4f}, range {held:.1%}",
            is_close and held >= LEAST_RANGE,
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
