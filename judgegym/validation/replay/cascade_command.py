"""`judgegym cascade CHEAP STRONG`: the threshold of a cascade, chosen from two recorded runs. Nobody is asked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser, share, whole_number

_DESCRIPTION = """Choose the threshold of a cascade from two finished runs of the same rows: the cheap judge decides
where it is sure enough, the strong one the rest. Nobody is asked. The threshold is chosen on half of the rows with an
exact bound, and what it does is reported on the other half. Exit code 4 if nothing can be promised."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    from judgegym.judges.parts.cascade import Confidence  # late: help comes at once

    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("runs", nargs=2, metavar="RUN", help="the cheap judge's run, then the strong one's; NAME=RUN names a judge")
    words = "how sure the cheap judge is (default: %(default)s)"
    add("--confidence", choices=get_args(Confidence), default="margin", help=words)
    words = "keep this share of the strong judge's verdicts (default: %(default)s)"
    add("--keep", type=share, default=0.98, metavar="X", help=words)
    add("--certainty", type=share, default=0.95, metavar="X", help="certainty of that promise (default: %(default)s)")
    add("--out", type=Path, metavar="FILE", help="write the preset for score and evaluate prompts, in YAML")
    add_shared(parser)
    parser.set_defaults(html=None)
    return parser


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Add the flags of both commands that read runs."""
    add = parser.add_argument
    add("--labels", type=Path, metavar="FILE", help="labels of people (judgegym label): what is right is known")
    words = "scores agree if they differ by at most this; if unset, by verdict"
    add("--tolerance", type=share, metavar="X", help=words)
    add("--data", metavar="DATA", help="where the rows are, if they have moved since the runs")
    add("--seed", type=whole_number(0), default=0, metavar="N", help="seed of halves and folds (default: %(default)s)")
    add("--json", metavar="FILE", help="write all numbers as JSON; - is standard output, instead of the table")


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym cascade") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 4 if no threshold can be promised; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(parser_of(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    require("environments")
    from judgegym.validation.replay.cascade import run  # late: help comes at once

    return run(flags)
