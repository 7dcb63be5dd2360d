"""A seeded sample of all mutants: the same seed and the same tree give the same mutants."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from .operators import Mutant, mutants_of
from .selection import PACKAGES, python_files


def draw(
    root: Path, *, seed: int, count: int, only: Sequence[str], exclude: Sequence[str]
) -> list[Mutant]:
    """Draw `count` mutants (all, if there are fewer) and return them in the order of their places."""
    files = [str(path) for path in python_files(root, PACKAGES)]
    files = [file for file in files if matches(file, only or ["*"]) and not matches(file, exclude)]
    # Two changes of one kind at one place (a number by one, up and down) are drawn as one.
    places: dict[tuple[str, int, str], list[Mutant]] = {}
    for file in files:
        for mutant in mutants_of(root, file):
            places.setdefault((mutant.file, mutant.start, mutant.kind), []).append(mutant)
    rng = random.Random(seed)
    chosen = rng.sample(sorted(places), min(count, len(places)))
    print(
        f"{sum(map(len, places.values()))} mutants at {len(places)} places of {len(files)} files; "
        f"seed {seed}"
    )
    return [rng.choice(places[place]) for place in sorted(chosen)]


def matches(file: str, patterns: Iterable[str]) -> bool:
    """Whether a file is one of the patterns, or below a folder that is one of them."""
    return any(
        fnmatch.fnmatch(file, pattern) or file.startswith(pattern.rstrip("/") + "/")
        for pattern in patterns
    )
