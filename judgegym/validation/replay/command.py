"""`judgegym replay RUN…`: juries and cascades computed from recorded runs, and a sweep over them. Nobody is asked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser, whole_number
from judgegym.validation.replay.cascade_command import add_shared

_DESCRIPTION = """Compute a jury or a cascade from finished runs of the same rows, or sweep over all of them, without a
call: what it is worth against labels or a reference, and what it costs. With --out FILE.jsonl or .parquet the rows are
judged as a live run of judgegym score would judge them, with the same calls and cost; those runs are of score. Runs of
evaluate take part in tables."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run directory, or a file of score; NAME=RUN names its judge")
    what = parser.add_mutually_exclusive_group()
    words = "a jury of all runs: mean, median, trimmed_mean, majority, unanimous; @FILE reads its settings"
    what.add_argument("--jury", metavar="RULE", help=words)
    words = "a cascade of two runs, the cheap one first: margin, orders, votes, probability, members, or @FILE"
    what.add_argument("--cascade", metavar="RULE", help=words)
    words = "weights of the jury: a=2,b=1; auto: learned from --labels; dawid_skene: without labels"
    add("--jury_weights", metavar="WEIGHTS", help=words)
    add("--jury_quorum", type=whole_number(1), metavar="N", help="fewest members with a score (default: the most)")
    scales = ("own", "standardised", "rank")
    add("--jury_scale", choices=scales, help="bring scores to one scale by those of these runs (default: own)")
    add("--cascade_threshold", metavar="X", help="the cheap judge decides above this confidence")
    add("--sweep", action="store_true", help="measure every jury and cascade, and mark the Pareto front")
    add_shared(parser)
    add("--reference", metavar="NAME", help="measure agreement with this run instead")
    words = "FILE.jsonl or .parquet: the rows, judged; FILE.yaml: the preset of the jury or cascade"
    add("--out", type=Path, metavar="FILE", help=words)
    add("--html", type=Path, metavar="FILE", help="write them as a page that needs no network")
    return parser


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym replay") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(parser_of(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    require("environments")
    from judgegym.validation.replay.replay import run  # late: help comes at once

    return run(flags)
