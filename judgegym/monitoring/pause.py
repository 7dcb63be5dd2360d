"""Pause of `serve` after an alarm (`on_alarm=pause`): holds back groups until it is resumed.

There are four ways to resume: SIGUSR1 to the process, the seconds of `pause:SECONDS`, `judgegym
view`, and a file `resume` in the run directory, which the page's server writes (`request_resume`).
The run removes that file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

logger = logging.getLogger(__name__)

RESUME = "resume"
"""File in the run directory."""
_POLL_S = 0.5

ResumeCause = Literal["signal", "time", "page"]
PauseState = Literal["paused", "resumed"]


def request_resume(run: Path) -> None:
    """Resume a paused `serve` with this run directory; nothing happens if none is paused.

    Raises:
        OSError: the directory cannot be written to.
    """
    (run / RESUME).touch()


class Pause:
    """Gate in front of the groups of a run."""

    def __init__(
        self,
        run: Path,
        after_s: float | None,
        report: Callable[[PauseState, ResumeCause | Literal["alarm"]], None],
    ) -> None:
        """Begin open.

        Args:
            run: the run directory.
            after_s: resume after this many seconds; `None`: only on request.
            report: called with each change, and its cause.
        """
        self._path = run / RESUME
        self._after_s = after_s
        self._report = report
        self._open = asyncio.Event()
        self._open.set()
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_paused(self) -> bool:
        """Whether groups are held back."""
        return not self._open.is_set()

    async def wait_until_open(self) -> None:
        """Wait until groups may be sent."""
        await self._open.wait()

    def listen(self) -> None:
        """Resume on SIGUSR1, which would otherwise end the process.

        Works only in the main thread.
        """
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.resume, "signal")

    def begin(self) -> None:
        """Hold back all groups from now on."""
        if self.is_paused:
            return
        self._path.unlink(missing_ok=True)  # an old file
        self._open.clear()
        self._report("paused", "alarm")
        until = ""
        if self._after_s is not None:
            until = f", or after {self._after_s:g} s"
        logger.warning(
            "paused: no group is sent, the trainer waits. It goes on with the button of judgegym "
            "view, `touch %s`, SIGUSR1%s",
            self._path,
            until,
        )
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def resume(self, by: ResumeCause) -> None:
        """Send groups again."""
        if not self.is_paused:
            return
        logger.warning("resumed (%s): groups are sent again", by)
        self._path.unlink(missing_ok=True)
        self._open.set()
        self._report("resumed", by)

    def close(self) -> None:
        """Stop watching for the file and the signal."""
        if self._watching is not None:
            self._watching.cancel()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)

    async def _watch(self) -> None:
        began = time.monotonic()
        while self.is_paused:
            left_s = math.inf
            if self._after_s is not None:
                left_s = began + self._after_s - time.monotonic()
            if left_s <= 0:
                self.resume("time")
            elif self._path.exists():
                self.resume("page")
            else:
                await asyncio.sleep(min(_POLL_S, left_s))
