"""Write the page of a run at the end of the command that made the run.

Guarantee: the page never fails the command. Everything that it is made of is on disk before, so it can be made at any
time; while the disk refuses it, it is written again like any other file of the run.
"""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from judgegym.engine.runs.disk import Disk
from judgegym.reports.run_page.write import write_report

logger = logging.getLogger(__name__)


async def write_report_after(path: Path, disk: Disk) -> Path | None:
    """Write the page of an evaluation or of a file of groups, in a thread.

    Args:
        path: the run directory, or the file of groups.
        disk: writes the files of the run.

    Returns:
        Where the page is; `None` if it could not be written, with a warning that says why.
    """
    try:
        return await disk.retried(path, lambda: write_report(path), in_thread=True)
    except Exception as error:  # noqa: BLE001  # of charts, a damaged file, the disk: the numbers are on disk
        how = shlex.join(["python", "-m", "judgegym.reports", str(path)])
        logger.warning("the page of the run is not written: %s: %s. To write it: %s", type(error).__name__, error, how)
        return None
