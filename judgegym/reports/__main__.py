"""Write the page of an old run: `python -m judgegym.reports RUN`, or `judgegym report RUN`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine import terminal
from judgegym.engine.runs.directory import CONFIG, FAILURES, METRICS, SAMPLES, locate_run_directory
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import RunDirectoryError, SettingsError
from judgegym.monitoring.live_file import LIVE, MONITOR
from judgegym.reports.run_page.items import MOST_ITEMS, ORDERS

if TYPE_CHECKING:
    from judgegym.reports.labels.correction import Correction

_FILES_OF_RUN = (METRICS, SAMPLES, FAILURES, CONFIG, MONITOR, LIVE)
_ABOUT = (
    "Write the page of a run: its result, charts, and every sample with what the judge was asked "
    "and said."
)


def main(argv: Sequence[str] | None = None, *, prog: str = "python -m judgegym.reports") -> int:
    """Run the command.

    Args:
        argv: the command's arguments; by default those of the process.
        prog: the program's name in messages.

    Returns:
        The exit code: 0, or 2 if the run cannot be read or the page cannot be written.
    """
    options = make_parser(prog).parse_args(argv)
    return exit_code(lambda: _write(options))


def _write(options: argparse.Namespace) -> int:
    require("environments")
    from judgegym.reports.results.folder import is_training_run
    from judgegym.reports.results.run import find_scoring_run
    from judgegym.reports.run_page.page import (
        locate_report,
        write_report,
    )  # late: --help comes at once
    from judgegym.reports.training.page import write_training_report

    run: Path = options.run
    if run.name in _FILES_OF_RUN and run.is_file():
        run = run.parent
    if not run.exists() and find_scoring_run(run) is None:
        raise RunDirectoryError(
            f"{run}: there is no such run directory, scored file or file of groups"
        )
    if (options.output or locate_report(run)).resolve() == run.resolve():
        raise SettingsError(
            f"{run} is a page, not a run; expected a run directory, a file of score, or one of "
            "process"
        )
    if run.is_file() and not run.stat().st_size and not locate_run_directory(run).exists():
        raise RunDirectoryError(
            f"{run} is empty; expected a run directory, a file of score, or one of process"
        )
    correction = None if options.labels is None else _print_correction(run, options.labels)
    try:
        if is_training_run(run):
            path = write_training_report(run, options.output)
        else:
            path = write_report(
                run,
                order=options.order,
                most=options.samples,
                output=options.output,
                correction=correction,
            )
    except OSError as error:
        target = str(options.output or locate_report(run))
        action = "written" if error.filename == target else "read"
        raise SettingsError(
            f"{error.filename or run} cannot be {action}: {error.strerror or error}"
        ) from error
    terminal.say(f"The page is {path}")
    return 0


def _print_correction(path: Path, labels: Path) -> Correction:
    """Correct the result of a run, and print it.

    Raises:
        UserError: there is no run with a result, or the labels belong to another run.
    """
    from judgegym.engine.terminal.summary import (
        Summary,
        SummaryLine,
        show_summary,
    )  # late, as above
    from judgegym.reports.labels.correction import correct_run
    from judgegym.reports.labels.file import read_labels
    from judgegym.reports.labels.rendering import format_with_interval, make_section
    from judgegym.reports.results.run import SavedRun, find_scoring_run

    if path.is_file() and find_scoring_run(path) is None:
        raise SettingsError(
            f"--labels: people's labels correct a result of evaluate or score; {path} holds groups"
        )
    run = SavedRun.open(path)
    correction = correct_run(run, read_labels(labels))
    raw = SummaryLine(
        correction.words,
        f"{correction.whole.raw:.4f}",
        format_with_interval(correction.raw_interval),
    )
    show_summary(Summary(f"{run.environment}: {run.subject}", raw, [make_section(correction)]))
    return correction


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = OneLineParser(prog, _ABOUT)
    add = parser.add_argument
    run = (
        "a run directory of evaluate, serve or the reward server, a file of score, or a file of "
        "groups of process"
    )
    add("run", type=Path, metavar="RUN", help=run)
    output = "write the page here; by default report.html in the run directory"
    add("--output", type=Path, metavar="FILE", help=output)
    order = (
        "the order of the samples; worst: those that failed first (default: dataset; of a scored "
        "data set worst)"
    )
    add("--order", choices=ORDERS, help=order)
    most = (
        "show at most this many samples, or all; those that failed, the worst, and some of the "
        "others"
    )
    add(
        "--samples",
        type=_parse_count,
        default=MOST_ITEMS,
        metavar="N",
        help=f"{most} (default: {MOST_ITEMS})",
    )
    labels = "correct the result by these labels of people, as judgegym label writes them"
    add("--labels", type=Path, metavar="FILE", help=labels)
    return parser


def _parse_count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, or all; found {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
