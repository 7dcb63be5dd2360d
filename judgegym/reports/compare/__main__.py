"""`judgegym compare RUN RUN…`, or `python -m judgegym.reports.compare`: table, page, JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.one_line_parser import OneLineParser, make_whole_number_type
from judgegym.llm.errors import UserError
from judgegym.reports.document import write_outputs

_DESCRIPTION = """Compare runs on the rows that they share: the first run is the reference, each
further run is compared with it. Prints the results and their differences with paired intervals,
paired tests, how many rows went from one outcome to another, the differences by category, the
rows that changed most, and how many rows would settle the difference. Runs whose judge, protocol
or data differ are refused, unless that is allowed."""
_FEWEST_ROUNDS = 100


_ROUNDS = "bootstrap resamples for the intervals of κ (default: %(default)s)"
_SEED = "seed of these (default: %(default)s)"


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    runs = (
        "run directories of evaluate, files of score, or audits (JSON), two or more; the first is "
        "the reference"
    )
    add("runs", nargs="+", metavar="RUN", help=runs)
    judges = "compare runs whose judges differ, and say how far the judges agree (Cohen's kappa)"
    add("--across_judges", action="store_true", help=judges)
    add("--across_protocols", action="store_true", help="compare runs whose other settings differ")
    add(
        "--across_data",
        action="store_true",
        help="compare runs whose datasets or texts of shared rows differ",
    )
    _add_succession(parser)
    add(
        "--gold",
        action="store_true",
        help="also compare each run with the gold labels of the rows (accuracy, κ)",
    )
    labels = (
        "correct by labels of people: a file for each RUN, in their order, or one for all (of the "
        "same responses)"
    )
    add("--labels", type=Path, action="append", default=[], metavar="FILE", help=labels)
    add(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the comparison as a page that needs no network",
    )
    add(
        "--json",
        metavar="FILE",
        help="write the comparison as JSON; - is standard output, instead of the tables",
    )
    most = "name the N rows that changed most (default: %(default)s)"
    add("--rows", type=make_whole_number_type(0), default=10, metavar="N", help=most)
    add(
        "--rounds",
        type=make_whole_number_type(_FEWEST_ROUNDS),
        default=10_000,
        metavar="N",
        help=_ROUNDS,
    )
    add("--seed", type=make_whole_number_type(0), default=0, help=_SEED)
    return parser


def _add_succession(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a succession."""
    group = parser.add_argument_group("when a judge retires")
    group.add_argument(
        "--succession",
        action="store_true",
        help="RUN is OLD and NEW, in which another judge judges OLD's completions again: also "
        "thresholds, gates, cascades, anchors, and the rows that an interval takes",
    )
    threshold = (
        "with --succession: how many rows reach X with each judge; repeat it for several (default: "
        "the middle of the scale of scores)"
    )
    group.add_argument(
        "--threshold", type=_parse_number, action="append", default=[], metavar="X", help=threshold
    )
    half_width = (
        "with --succession: how many rows the shift takes to ± X; repeat it for several (default: "
        "1, 2, 3 and 5 %% of the scale)"
    )
    group.add_argument(
        "--half_width",
        type=_parse_half_width,
        action="append",
        default=[],
        metavar="X",
        help=half_width,
    )


def _parse_number(word: str) -> float:
    """Parse a finite number."""
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a number, found {word!r}")
    return number


def _parse_half_width(word: str) -> float:
    """Parse a number above 0."""
    number = _parse_number(word)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {word!r}")
    return number


def main(
    argv: Sequence[str] | None = None, *, prog: str = "python -m judgegym.reports.compare"
) -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 2 for wrong input; 130 after Ctrl-C; 141 if the output pipe is closed.
    """
    return exit_code(lambda: _run(make_parser(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    from judgegym.reports.compare.audits import is_audit  # late, as all of it: help comes at once
    from judgegym.reports.compare.comparison import compare_runs
    from judgegym.reports.compare.conditions import CONDITIONS
    from judgegym.reports.compare.page import report_link, write_page
    from judgegym.reports.compare.rendering import show_comparison
    from judgegym.reports.compare.succession import SuccessionOptions
    from judgegym.reports.labels.file import read_labels
    from judgegym.reports.results.run import SavedRun

    if not flags.succession and (flags.threshold or flags.half_width):
        name = "threshold" if flags.threshold else "half_width"
        raise UserError(f"--{name}: nothing reads it without --succession")
    if any(map(is_audit, flags.runs)):
        return _run_audits(flags)
    succession = None
    if flags.succession:
        succession = SuccessionOptions(tuple(flags.threshold), tuple(flags.half_width))
    allowed = {
        "judge": flags.across_judges,
        "protocol": flags.across_protocols,
        "data": flags.across_data,
    }
    comparison = compare_runs(
        [SavedRun.open(Path(word)) for word in flags.runs],
        across=[condition for condition in CONDITIONS if allowed[condition]],
        rounds=flags.rounds,
        seed=flags.seed,
        most=flags.rows,
        with_gold=flags.gold,
        labels=[read_labels(path) for path in flags.labels],
        succession=succession,
    )

    def page() -> Iterator[bytes]:
        folder = flags.html.resolve().parent
        return write_page(comparison, lambda path, uid: report_link(path, uid, seen_from=folder))

    write_outputs(flags, comparison, page, lambda: show_comparison(comparison))
    return 0


def _run_audits(flags: argparse.Namespace) -> int:
    from judgegym.reports.compare.audits import compare_audits, show_audits

    if flags.succession:
        raise UserError("--succession: expected two runs, and an audit is none")
    if flags.html is not None:
        raise UserError("--html: a comparison of audits has no page; it has a table and --json")
    comparison = compare_audits(flags.runs, rounds=flags.rounds, seed=flags.seed)
    write_outputs(flags, comparison, lambda: (), lambda: show_audits(comparison))
    return 0


if __name__ == "__main__":
    sys.exit(main())
