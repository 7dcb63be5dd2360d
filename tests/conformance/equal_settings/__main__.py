"""`python -m tests.conformance.equal_settings make DIR --checkout PATH`, `… compare DIR DIR`."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from tests.conformance.equal_settings.comparing import compare
from tests.conformance.equal_settings.making import make

_SHOWN = 200


def main() -> int:
    """Resolve settings, or compare them."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.equal_settings")
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--checkout", type=Path, default=Path())
    comparing = verbs.add_parser("compare")
    comparing.add_argument("folders", type=Path, nargs=2, metavar="folder")
    comparing.add_argument(
        "--without",
        action="append",
        default=[],
        choices=["config", "said"],
        help="what does not count",
    )
    for verb in (making, comparing):
        verb.add_argument(
            "--only", default="*", help="cases whose names have this pattern, as those of files"
        )
    words = parser.parse_args()
    if words.verb == "make":
        lines = make(words.folder, words.checkout, words.only)
        clients = sum(len(line["clients"]) for line in lines)
        refused = sum(line["code"] != 0 for line in lines)
        print(
            f"{len(lines)} cases in {words.folder}, {clients} clients, {refused} commands that "
            "were refused"
        )
        return 0
    found = compare(*words.folders, words.without)
    differences = [each for each in found if fnmatch(each.case, words.only)]
    print(*differences[:_SHOWN], sep="\n")
    print(f"{len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
