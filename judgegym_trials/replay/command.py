"""`judgegym cascade` and `judgegym replay`, two commands that read recorded runs and ask nobody.

The first one chooses the threshold of a cascade; the second one computes juries and cascades, or sweeps over them. The
last word of the program's name says which of the two it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser, share, whole_number

_CASCADE = """Choose the threshold of a cascade from two finished runs of the same rows: the cheap judge decides
where it is sure enough, the strong one the rest. Nobody is asked. The threshold is chosen on half of the rows with an
exact bound, and what it does is reported on the other half. Exit code 4 if nothing can be promised."""
_REPLAY = """Compute a jury or a cascade from finished runs of the same rows, or sweep over all of them, without a
call: what it is worth against labels or a reference, and what it costs. With --out FILE.jsonl or .parquet the rows are
judged as a live run of judgegym score would judge them, with the same calls and cost; those runs are of score. Runs of
evaluate take part in tables."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    parser = OneLineParser(prog, _CASCADE if _is_cascade(prog) else _REPLAY)
    add = parser.add_argument
    if _is_cascade(prog):
        _add_cascade(parser)
    else:
        _add_replay(parser)
    add("--labels", type=Path, metavar="FILE", help="labels of people (judgegym label): what is right is known")
    words = "scores agree if they differ by at most this; if unset, by verdict"
    add("--tolerance", type=share, metavar="X", help=words)
    add("--data", metavar="DATA", help="where the rows are, if they have moved since the runs")
    add("--seed", type=whole_number(0), default=0, metavar="N", help="seed of halves and folds (default: %(default)s)")
    add("--json", metavar="FILE", help="write all numbers as JSON; - is standard output, instead of the table")
    return parser


def _is_cascade(prog: str) -> bool:
    return prog.endswith("cascade")


def _add_cascade(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `judgegym cascade` alone."""
    from judgegym.judges.parts.cascade import Confidence  # late: help comes at once

    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="the cheap judge's run, then the strong one's; NAME=RUN names a judge")
    words = "how sure the cheap judge is (default: %(default)s)"
    add("--confidence", choices=get_args(Confidence), default="margin", help=words)
    words = "keep this share of the strong judge's verdicts (default: %(default)s)"
    add("--keep", type=share, default=0.98, metavar="X", help=words)
    add("--certainty", type=share, default=0.95, metavar="X", help="certainty of that promise (default: %(default)s)")
    add("--out", type=Path, metavar="FILE", help="write the preset for score and evaluate prompts, in YAML")
    parser.set_defaults(html=None)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `judgegym replay` alone."""
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
    add("--reference", metavar="NAME", help="measure agreement with this run instead")
    words = "FILE.jsonl or .parquet: the rows, judged; FILE.yaml: the preset of the jury or cascade"
    add("--out", type=Path, metavar="FILE", help=words)
    add("--html", type=Path, metavar="FILE", help="write them as a page that needs no network")


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym replay") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages, with the command.

    Returns:
        0; 4 if no threshold can be promised; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(parser_of(prog).parse_args(argv), prog))


def _run(flags: argparse.Namespace, prog: str) -> int:
    require("environments")
    from judgegym_trials.replay import cascade, replay  # late: help comes at once

    return cascade.run(flags) if _is_cascade(prog) else replay.run(flags)
