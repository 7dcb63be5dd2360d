"""Strata of the rows of a run by the judge's values, within which rows are drawn to be labelled.

Source: Cochran, Sampling Techniques (1977), chapter 5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

FEWEST_ROWS = 10
"""Rows of a stratum: with fewer, those that are left out ("cannot tell") leave none to compute a variance of."""
_MOST_STRATA = 5


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
