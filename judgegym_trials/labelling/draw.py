"""Order in which a run's rows are labelled: random, by the seed and the rows' ids.

The first n rows are the sample of n, so more labels extend it. By score, rows are drawn at random
within strata of the judge's values: first two of each stratum, which its variance needs, then in
proportion to the strata's sizes. Whenever labelling stops, the judge's values are about as frequent
in the sample as in the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from judgegym.judges.core.seeding import derive_seed
from judgegym.reports.labels.file import Draw, Sampling, Stratum, assign_strata, run_digest

_FIRST = 2


def describe_draw(
    values: Mapping[str, float], digests: Mapping[str, str], how: Sampling, seed: int
) -> Draw:
    """Return the description of a draw, for the first line of the file of labels.

    Args:
        values: the rows' headline values, by id.
        digests: digests of the texts that labellers see (`row_digest`).
        how: from all rows, or within strata.
        seed: the draw's seed.
    """
    sizes: Mapping[str, int] = {}
    if how == "by_score":
        sizes = Counter(assign_strata(values).values())
    strata = tuple(Stratum(name, count) for name, count in sizes.items())
    return Draw(how, seed, len(values), run_digest(digests), strata)


def sort_ids(values: Mapping[str, float], draw: Draw) -> list[str]:
    """Return the ids of all rows in the order of labelling."""
    shuffled = sorted(values, key=lambda uid: (derive_seed(draw.seed, uid, "draw"), uid))
    if not draw.strata:
        return shuffled
    strata = assign_strata(values)
    sizes = {stratum.name: stratum.rows for stratum in draw.strata}
    drawn = Counter[str]()
    places: dict[str, tuple[bool, float]] = {}
    for uid in shuffled:
        name = strata[uid]
        places[uid] = drawn[name] >= _FIRST, (drawn[name] + 0.5) / sizes[name]
        drawn[name] += 1
    return sorted(shuffled, key=places.__getitem__)
