"""`python -m tests.conformance.equal_runs make DIR --checkout PATH`, `… compare DIR DIR`, `… list`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from tests.conformance.equal_runs.comparing import compare
from tests.conformance.equal_runs.making import make
from tests.conformance.equal_runs.runs import RUNS

_SHOWN = 8
"""So many differences of a file are printed."""


def main() -> int:
    """Make runs, or compare them."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.equal_runs")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list")
    making = verbs.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--checkout", type=Path, default=Path())
    making.add_argument(
        "--only", default="*", help="runs whose names have this pattern, as those of files"
    )
    making.add_argument("--jobs", type=int, default=2)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("folders", type=Path, nargs=2, metavar="folder")
    comparing.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave out this field"
    )
    words = parser.parse_args()
    if words.verb == "list":
        print(*(run.name for run in RUNS), sep="\n")
        return 0
    if words.verb == "make":
        runs = [run for run in RUNS if fnmatch(run.name, words.only)]
        refused = make(words.folder, words.checkout, runs, words.jobs)
        print(
            f"{len(runs)} runs in {words.folder}, {refused} with a command that was refused (exit "
            "code 2)"
        )
        return 1 if refused else 0
    return _print_comparison(*words.folders, words.without)


def _print_comparison(before: Path, after: Path, without: list[str]) -> int:
    found = compare(before, after, without)
    shown = Counter[tuple[str, str]]()
    for difference in found.differences:
        place = (difference.run, difference.file)
        shown[place] += 1
        if shown[place] <= _SHOWN:
            print(difference)
    for (run, file), count in shown.items():
        if count > _SHOWN:
            print(f"{run}/{file}: {count} differences in all")
    print(f"{found.runs} runs, {found.files} files, {found.files - len(shown)} of them equal")
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
