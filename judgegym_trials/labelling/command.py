"""Command `judgegym label RUN`: a local page on which people label rows of a run, blind."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine.terminal.output import say, warn
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import (
    OneLineParser,
    make_whole_number_type,
    parse_share,
)
from judgegym.llm.errors import SettingsError
from judgegym.reports.view.__main__ import add_address

if TYPE_CHECKING:
    from judgegym_trials.labelling.session import Session

PORT = 8301
ROWS, OVERLAP = 60, 10
_DESCRIPTION = """Draw a random sample of a run's rows and label it on a local page, with the
keyboard, without seeing whose response it is or what the judge said. Each label is saved at once; a
later start goes on. The page says how wide the interval of the corrected result is by now; judgegym
report RUN --labels FILE says the result."""


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser of the command's flags."""
    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="a run directory of evaluate, or a file of score")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="the file of labels (default: labels.jsonl in the run directory)",
    )
    amount = parser.add_mutually_exclusive_group()
    rows = "label the first N rows of the draw; a greater N later extends it (default: %(default)s)"
    amount.add_argument(
        "--rows", type=make_whole_number_type(1), default=ROWS, metavar="N", help=rows
    )
    width = "label until the interval of the corrected result is ±X, such as 0.05"
    amount.add_argument("--half_width", type=parse_share, metavar="X", help=width)
    add(
        "--seed",
        type=make_whole_number_type(0),
        help="seed of the draw (default: 0, or that of FILE)",
    )
    how = (
        "draw from all rows, or within strata of the judge's scores (default: random, or as FILE "
        "was drawn)"
    )
    add("--sampling", choices=("random", "by_score"), help=how)
    overlap = "rows that every labeller gets, for their agreement (default: %(default)s)"
    add("--overlap", type=make_whole_number_type(0), default=OVERLAP, metavar="N", help=overlap)
    add_address(parser, PORT)
    words = "add the labels of a file of the same draw, and serve no page"
    add("--import", dest="read", type=Path, metavar="FILE", help=words)
    return parser


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym label") -> int:
    """Run the command until a signal stops it; with --import to its end.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        130 after Ctrl-C, the usual end, 143 after SIGTERM; 0 after an import; 2 for wrong
        input.
    """
    return exit_code(lambda: _run(make_parser(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    require("environments")
    # Imported here, so that help comes at once.
    from judgegym.judges.conversations.turns import IMAGE_MARK
    from judgegym.judges.core import event_loop
    from judgegym.reports.labels.file import LABELS
    from judgegym.reports.results.calls import has_images
    from judgegym.reports.results.run import SavedRun
    from judgegym_trials.labelling.server import serve
    from judgegym_trials.labelling.session import LabelPlan, Session

    run = SavedRun.open(flags.run)
    path: Path = flags.out or run.path / LABELS
    plan = LabelPlan(flags.rows, flags.half_width, flags.overlap)
    with closing(Session(run, path, plan, how=flags.sampling, seed=flags.seed)) as session:
        marked = any(
            IMAGE_MARK.search(f"{sample.question}{sample.completions}") for sample in run.samples()
        )
        if marked and has_images(run.path):  # a text may contain [image 1], too
            report = shlex.join(["judgegym", "report", str(flags.run)])
            warn(
                "rows have images, such as [image 1], which labellers are not shown here; "
                f"{report} draws them"
            )
        if flags.read is not None:
            _import(session, flags.read)
            return 0
        code = event_loop.run(serve(session, flags.host, flags.port, opens=flags.open))
        labels = session.labels
        rows = len({uid for uid, _ in labels.by_row_and_labeller})
        labellers = len(labels.labellers)
        label_count = len(labels.by_row_and_labeller)
        say(f"saved in {path}: {label_count} labels (rows: {rows}, labellers: {labellers})")
        report = shlex.join(["judgegym", "report", str(flags.run), "--labels", str(path)])
        say(f"Next: the same command goes on; {report}")
        return code


def _import(session: Session, path: Path) -> None:
    """Add the labels in a file of the same draw."""
    from judgegym.reports.labels.correction import LabelledRows
    from judgegym.reports.labels.file import read_labels

    labels = read_labels(path)
    if labels.draw != session.draw:
        reason = (
            f"these labels do not belong to the draw of {session.path}; report takes them by "
            "themselves"
        )
        raise SettingsError(f"{path}: {reason}")
    LabelledRows.read(session.run, labels)  # reading also checks them
    added = [*labels.by_row_and_labeller.values()]
    session.add(added)
    label_count = len(added)
    say(f"{label_count} labels added to {session.path}")
