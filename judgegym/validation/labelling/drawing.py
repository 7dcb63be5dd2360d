"""The order in which the rows of a run are labelled: a random one, a function of the seed and the rows' ids.

The first n rows are the sample of n, so that more labels extend it. By score, rows are drawn at random within strata of
the judge's values: first two of each, which its variance takes, then in proportion to the sizes. Whoever stops has a
sample in which the judge's values are about as frequent as in the run.

Source: Cochran, Sampling Techniques (1977), chapter 5.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from judgegym.reports.labels.file import Draw, Sampling, Stratum, run_digest
from judgegym.reports.labels.strata import strata_of
from judgegym.validation.labelling.questions import ValuedRow

_FIRST = 2


def hashed(*parts: object) -> int:
    """Return a number from 0 to 2⁶⁴ − 1 that these parts decide."""
    found = blake2b(digest_size=8)
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(found.digest(), "big")


def draw_of(rows: Sequence[ValuedRow], how: Sampling, seed: int) -> Draw:
    """Return how rows are drawn, for the first line of the labels."""
    sizes = Counter(strata_of(_values(rows)).values()) if how == "by_score" else {}
    strata = tuple(Stratum(name, count) for name, count in sizes.items())
    return Draw(how, seed, len(rows), run_digest({row.uid: row.digest for row in rows}), strata)


def order_of(rows: Sequence[ValuedRow], draw: Draw) -> list[str]:
    """Return the ids of all rows in the order in which they are labelled."""
    shuffled = sorted((row.uid for row in rows), key=lambda uid: (hashed(draw.seed, "draw", uid), uid))
    if not draw.strata:
        return shuffled
    strata, members = strata_of(_values(rows)), defaultdict[str, list[str]](list)
    for uid in shuffled:
        members[strata[uid]].append(uid)

    def place(uid: str, number: int) -> tuple[bool, float, int]:
        return number >= _FIRST, (number + 0.5) / len(members[strata[uid]]), hashed(draw.seed, "draw", uid)

    places = {uid: place(uid, number) for of_one in members.values() for number, uid in enumerate(of_one)}
    return sorted(shuffled, key=places.__getitem__)


def _values(rows: Sequence[ValuedRow]) -> dict[str, float]:
    return {row.uid: row.value for row in rows}
