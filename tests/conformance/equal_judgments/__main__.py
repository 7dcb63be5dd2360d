"""`python -m tests.conformance.equal_judgments make DIR --checkout PATH`, `… compare DIR DIR`, `… list`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.equal_judgments.comparing import compare
from tests.conformance.equal_judgments.making import Plan, make
from tests.conformance.equal_judgments.settings import SETTINGS
from tests.conformance.equal_runs.making import MADE

_SHOWN = 6
"""So many differences of a setting are printed."""
_ROWS = 150
_USAGE = 2


def main() -> int:
    """Make records, or compare them."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.equal_judgments")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list")
    making = verbs.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--checkout", type=Path, default=Path())
    making.add_argument("--rows", type=int, default=_ROWS, help="of each setting")
    making.add_argument("--seed", type=int, default=0, help="of rows and endpoint")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("folders", type=Path, nargs=2, metavar="folder")
    for verb in (making, comparing):
        verb.add_argument(
            "--only",
            type=lambda text: text.split(","),
            default=[],
            help="kinds, separated by commas",
        )
    words = parser.parse_args()
    if words.verb == "list":
        print(*(setting.name for setting in SETTINGS), sep="\n")
        return 0
    if words.verb == "make":
        settings = [
            one
            for one in SETTINGS
            if not words.only or one.kind in words.only or one.name in words.only
        ]
        refused = make(words.folder, Plan(words.checkout, settings, words.rows, words.seed))
        print(
            f"{len(settings)} settings in {words.folder}, {refused} with a command that was refused"
        )
        return 1 if refused else 0
    return _print_comparison(*words.folders, words.only)


def _print_comparison(before: Path, after: Path, only: list[str]) -> int:
    made = [json.loads((folder / MADE).read_text(encoding="utf-8")) for folder in (before, after)]
    for name in ("rows", "seed"):
        if made[0][name] != made[1][name]:
            print(
                f"{name}: {made[0][name]} in {before}, {made[1][name]} in {after}; expected equal "
                "ones"
            )
            return _USAGE
    found, shown = compare(before, after, only), Counter[str]()
    for difference in found.differences:
        shown[difference.setting] += 1
        if shown[difference.setting] <= _SHOWN:
            print(difference)
    for setting, count in shown.items():
        if count > _SHOWN:
            print(f"{setting}: {count} differences in all")
    print(", ".join(f"{count} {name}" for name, count in found.counts.items()), end=": ")
    print(f"{len(found.differences)} differences")
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
