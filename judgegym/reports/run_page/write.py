"""Write the page of a run, from its files alone: at the end of a command, or later by `python -m judgegym.reports`.

Guarantees: a finished run gives the same bytes whenever its page is written; the page is replaced as a whole or not at
all; nothing else in the run directory is touched.
"""

from __future__ import annotations

from pathlib import Path

from judgegym.engine.runs.directory import REPORT
from judgegym.engine.runs.disk import write_atomic
from judgegym.reports.results.run import run_of_file
from judgegym.reports.run_page.contents import ReportOptions
from judgegym.reports.run_page.groups import group_contents
from judgegym.reports.run_page.page import page
from judgegym.reports.run_page.rows import run_contents


def report_of(path: Path) -> Path:
    """Where the page of a run directory, of a scored file or of a file of groups is."""
    run = path if path.is_dir() else run_of_file(path)
    return path.with_suffix(".html") if run is None else run / REPORT


def write_report(path: Path, options: ReportOptions | None = None, *, output: Path | None = None) -> Path:
    """Write the page of an evaluation, of a scored data set or of a file of groups.

    Args:
        path: the run directory; or a scored file or a file of groups, whose run directory is beside it.
        options: how the page is made.
        output: where to write it; by default into the run directory, or beside the file of groups.

    Returns:
        Where it is.

    Raises:
        RunDirectoryError: there is no run, or a file of it is damaged.
        OSError: the page cannot be written.
    """
    options = options or ReportOptions()
    run = path if path.is_dir() else run_of_file(path)
    is_of_groups = run is None and path.is_file()
    contents = group_contents(path, options) if is_of_groups else run_contents(run or path, options)
    target = output or report_of(path)
    write_atomic(target, lambda: page(contents.head, contents.items()))
    return target
