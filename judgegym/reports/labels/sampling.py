"""The order in which the rows of a run are labelled: a random one, a function of the seed and the rows' ids.

The first n rows are the sample of n, so that more labels extend it. By score, rows are drawn at random within strata of
the judge's values: first two of each, which its variance takes, then in proportion to the sizes. Whoever stops has a
sample in which the judge's values are about as frequent as in the run.

Source: Cochran, Sampling Techniques (1977), chapter 5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from judgegym.judges.core.seeding import derive
from judgegym.reports.labels.file import Draw, Sampling, Stratum, run_digest

FEWEST_ROWS = 10
"""Rows of a stratum: with fewer, those that are left out ("cannot tell") leave none to compute a variance of."""
_MOST_STRATA = 5
_FIRST = 2


def strata_of(values: Mapping[str, float]) -> Mapping[str, str]:
    """Return the stratum of each row, by id, in the order of the values; `values` are the rows' headline values.

    There is one for each value of the judge, or of many values one for each fifth of the rows. A stratum of fewer than
    `FEWEST_ROWS` rows is joined to the next one.
    """
    ordered = sorted(values.values())
    tops = sorted({*ordered})
    if len(tops) > _MOST_STRATA:
        tops = sorted({ordered[(len(ordered) * part) // _MOST_STRATA - 1] for part in range(1, _MOST_STRATA + 1)})
    kept: list[float] = []
    sizes = Counter(bisect_left(tops, value) for value in ordered)
    room = 0
    for place, top in enumerate(tops):
        room += sizes[place]
        if room >= FEWEST_ROWS:
            kept.append(top)
            room = 0
    if room:  # the last ones are too few, and join those before
        kept[-1:] = [tops[-1]]
    names = [f"to {top:g}" for top in kept]
    return {uid: names[bisect_left(kept, values[uid])] for uid in sorted(values, key=values.__getitem__)}


def draw_of(values: Mapping[str, float], digests: Mapping[str, str], how: Sampling, seed: int) -> Draw:
    """Return how rows are drawn, for the first line of the labels.

    Args:
        values: the rows' headline values, by id.
        digests: of what a labeller sees of them (`row_digest`).
        how: from all rows, or within strata.
        seed: of the draw.
    """
    sizes = Counter(strata_of(values).values()) if how == "by_score" else {}
    strata = tuple(Stratum(name, count) for name, count in sizes.items())
    return Draw(how, seed, len(values), run_digest(digests), strata)


def order_of(values: Mapping[str, float], draw: Draw) -> list[str]:
    """Return the ids of all rows in the order in which they are labelled."""
    shuffled = sorted(values, key=lambda uid: (derive(draw.seed, uid, "draw"), uid))
    if not draw.strata:
        return shuffled
    strata, sizes, drawn = strata_of(values), {each.name: each.rows for each in draw.strata}, Counter[str]()
    places = dict[str, tuple[bool, float]]()
    for uid in shuffled:
        name = strata[uid]
        places[uid] = drawn[name] >= _FIRST, (drawn[name] + 0.5) / sizes[name]
        drawn[name] += 1
    return sorted(shuffled, key=places.__getitem__)
