"""Command `judgegym replay`: juries and cascades of recorded runs, without any call."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import (
    OneLineParser,
    make_whole_number_type,
    parse_share,
)
from judgegym.llm.errors import SettingsError

_DESCRIPTION = """Compute a jury or a cascade from finished runs of the same rows, or sweep over all
of them, without a call: what it is worth against labels or a reference, and what it costs. With
--out FILE.jsonl or .parquet the rows are judged as a live run of judgegym score would judge them,
with the same calls and cost; those runs are of score. Runs of evaluate take part in tables. With
--choose, choose the threshold of a cascade: the cheap judge decides where it is sure enough, the
strong one the rest. The threshold is chosen on half of the rows with an exact bound, and what it
does is reported on the other half. Exit code 4 if nothing can be promised."""
_CHOICE: Mapping[str, str | float] = {"confidence": "margin", "keep": 0.98, "certainty": 0.95}
"""Flags of `--choose` alone, with their defaults."""
_DEPENDENT_FLAGS = {
    "jury": ("jury_weights", "jury_quorum", "jury_scale"),
    "cascade": ("cascade_threshold",),
    "choose": tuple(_CHOICE),
}
"""Flags that need one of these flags."""
_NOT_CHOOSING = ("sweep", "reference", "html")


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser of the command's flags."""
    from judgegym.judges.core.judge import Confidence  # imported here, so that help comes at once

    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run directory, or a file of score; NAME=RUN names its judge",
    )
    modes = parser.add_mutually_exclusive_group()
    words = (
        "a jury of all runs: mean, median, trimmed_mean, majority, unanimous; @FILE reads its "
        "settings"
    )
    modes.add_argument("--jury", metavar="RULE", help=words)
    words = (
        "a cascade of two runs, the cheap one first: margin, orders, votes, probability, members, "
        "or @FILE"
    )
    modes.add_argument("--cascade", metavar="RULE", help=words)
    words = "choose the threshold of a cascade of two runs, the cheap one first"
    modes.add_argument("--choose", action="store_true", help=words)
    words = "weights of the jury: a=2,b=1; auto: learned from --labels; dawid_skene: without labels"
    add("--jury_weights", metavar="WEIGHTS", help=words)
    add(
        "--jury_quorum",
        type=make_whole_number_type(1),
        metavar="N",
        help="fewest members with a score (default: the most)",
    )
    scales = ("own", "standardised", "rank")
    add(
        "--jury_scale",
        choices=scales,
        help="bring scores to one scale by those of these runs (default: own)",
    )
    add("--cascade_threshold", metavar="X", help="the cheap judge decides above this confidence")
    add(
        "--sweep",
        action="store_true",
        help="measure every jury and cascade, and mark the Pareto front",
    )
    add("--reference", metavar="NAME", help="measure agreement with this run instead")
    add(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labels of people (judgegym label): what is right is known",
    )
    words = "scores agree if they differ by at most this; if unset, by verdict"
    add("--tolerance", type=parse_share, metavar="X", help=words)
    add("--data", metavar="DATA", help="where the rows are, if they have moved since the runs")
    add(
        "--seed",
        type=make_whole_number_type(0),
        default=0,
        metavar="N",
        help="seed of halves and folds (default: %(default)s)",
    )
    words = "FILE.jsonl or .parquet: the rows, judged; FILE.yaml: the preset of the jury or cascade"
    add("--out", type=Path, metavar="FILE", help=words)
    add("--html", type=Path, metavar="FILE", help="write them as a page that needs no network")
    add(
        "--json",
        metavar="FILE",
        help="write all numbers as JSON; - is standard output, instead of the table",
    )
    add = parser.add_argument_group("with --choose").add_argument
    words = f"how sure the cheap judge is (default: {_CHOICE['confidence']})"
    add("--confidence", choices=get_args(Confidence), help=words)
    words = f"keep this share of the strong judge's verdicts (default: {_CHOICE['keep']})"
    add("--keep", type=parse_share, metavar="X", help=words)
    words = f"certainty of that promise (default: {_CHOICE['certainty']})"
    add("--certainty", type=parse_share, metavar="X", help=words)
    return parser


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym replay") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages, with the command.

    Returns:
        0; 4 if no threshold can be certified; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(make_parser(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    _check_together(flags)
    require("environments")
    from judgegym_trials.replay import cascade, replay  # imported here, so that help comes at once

    if flags.choose:
        return cascade.run(flags)
    return replay.run(flags)


def _check_together(flags: argparse.Namespace) -> None:
    """Check that every flag has an effect, and set the defaults of `--choose`.

    Raises:
        SettingsError: a flag has no effect with the others.
    """
    for mode, names in _DEPENDENT_FLAGS.items():
        if getattr(flags, mode):
            continue
        for name in names:
            if getattr(flags, name) is not None:
                raise SettingsError(f"--{name}: it has no effect without --{mode}")
    for name in _NOT_CHOOSING:
        if flags.choose and getattr(flags, name):
            raise SettingsError(
                f"--{name}: it has no effect with --choose, which only measures cascades of two "
                "runs"
            )
    for name, default in _CHOICE.items():
        if getattr(flags, name) is None:
            setattr(flags, name, default)
