"""`judgegym best RUN [COUNT]`: print the best answers of a run."""

import argparse
import heapq
from collections.abc import Sequence
from pathlib import Path

from judgegym.reports.results.run import SavedRun


def make_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog, description="Print the best answers of a run.", allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory of evaluate")
    parser.add_argument(
        "count", type=int, nargs="?", default=3, metavar="COUNT", help="how many (default: 3)"
    )
    return parser


def main(argv: Sequence[str], *, prog: str) -> int:
    options = make_parser(prog).parse_args(argv)
    run = SavedRun.open(
        options.run
    )  # a folder that is not a run ends the command with a message and exit code 2
    scored = ((sample.score, sample.uid) for sample in run.samples() if sample.score is not None)
    for score, uid in heapq.nlargest(options.count, scored):
        answers = "\n".join(completion.answer for completion in run.read_sample(uid).completions)
        print(f"# {uid}: {score:g}\n{answers}\n")
    return 0
