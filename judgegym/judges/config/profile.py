"""`--profile[=FILE]`: where a command spends its time, as a page for a browser.

The profile is written however the command ends, Ctrl-C included. The thread of the event loop is sampled every 2 ms
of wall time, so that waiting shows as time of the loop itself. Samples are kept in memory until the end, some 10 MB for
each minute: a profile is for minutes, not for days.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from judgegym.judges.config.extras import require
from judgegym.llm.errors import SettingsError

_INTERVAL_S = 0.002

ABOUT = "Write a profile to this HTML file (without a name: profile-<time>.html). Needs the extra profile."


def default_name() -> str:
    """The file of a flag without a name."""
    return f"profile-{datetime.now():%Y%m%d-%H%M%S}.html"


def check(path: Path | None) -> None:
    """Check, before anything is started, that a profile can be taken and written.

    Raises:
        MissingExtraError: pyinstrument is not installed.
        SettingsError: the file cannot be written.
    """
    if path is None:
        return
    require("profile")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SettingsError(f"--profile: {path} cannot be written; expected a file in a folder that is there")


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Profile what this thread does in the block, and write it to `path`; without a path do nothing.

    Raises:
        MissingExtraError, SettingsError: as in `check`.
    """
    check(path)
    if path is None:
        yield
        return
    from pyinstrument import Profiler

    # All tasks of the loop are one profile: by default it would follow the task that starts it.
    profiler = Profiler(interval=_INTERVAL_S, async_mode="disabled")
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()
        path.write_text(profiler.output_html(), encoding="utf-8")
        sys.stderr.write(f"The profile is in {path}: open it in a browser\n")
