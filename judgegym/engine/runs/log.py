"""The log of a run, `run.log`: the command's messages with levels and times.

Guarantees: a record is only in the log of the run whose tasks logged it, so that the evaluations of
a `serve` do not write into each other's file; a resumed run appends after a separator line; an
unwritable file never ends a run: lost records are counted, and reported once there is room again.
Messages from before the run directory is open (while rows are loaded) are written when it is
opened.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from judgegym.engine.runs.lines import LineWriter

LOG = "run.log"
SEPARATOR = "-" * 72

_OURS = "judgegym"
_LOGGERS = (
    "",
    "huggingface_hub",
    "datasets",
    "transformers",
)  # records of these may not get to the root logger
_MOST_EARLY = 1000
_LONGEST = 100_000  # characters of a record; full_debug logs whole prompts
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

_RUN: ContextVar[RunLog | None] = ContextVar("run", default=None)


class RunLog:
    """The log of one run, open until `close`."""

    def __init__(self, directory: Path) -> None:
        """Open the log of a run directory, and write the heading and the earlier messages.

        From now on it takes the records of the calling task, and of the tasks that it starts.
        """
        self.path = directory / LOG
        self.is_closed = False
        self._lines = LineWriter(self.path, lambda path, error: None)
        self._lost = 0
        self._lock = threading.Lock()
        self._outer = _RUN.get()
        if self.path.exists():
            self._append(f"{SEPARATOR}\n")
        _RUN.set(self)
        _ROUTER.add_log(self)

    def write(self, message: str, level: int = logging.INFO) -> None:
        """Write a record to this log only; the terminal shows it differently or not at all."""
        self.take(_record(message, level))

    def take(self, record: logging.LogRecord) -> None:
        """Write a record."""
        if not self.is_closed:
            self._append(_FORMAT.format(record) + "\n")

    @contextmanager
    def log_end(self) -> Iterator[None]:
        """Write how the block ended, and with which error."""
        try:
            yield
        except BaseException as error:  # re-raised
            if type(error).__name__ in ("CancelledError", "StopSignal", "KeyboardInterrupt"):
                self.write("stopped", logging.WARNING)
            else:
                name = type(error).__name__
                self.write(f"ended by {name}: {error}", logging.ERROR)
            raise
        self.write("ended")

    def close(self) -> None:
        """Close the file; later records go to the run around this one."""
        with self._lock:
            self.is_closed = True
            self._lines.close()
        if _RUN.get() is self:
            _RUN.set(self._outer)
        _ROUTER.remove_log(self)

    def _append(self, text: str) -> None:
        """Append text, from any thread."""
        with self._lock:
            if self._lost:
                lost = f"{self._lost} records are lost: they could not be written"
                text = _FORMAT.format(_record(lost, logging.WARNING)) + "\n" + text
            self._lines.append(text.encode(errors="backslashreplace"))
            if self._lines.drop():  # a run does not end because its log is full
                self._lost += 1
            else:
                self._lost = 0


class _Format(logging.Formatter):
    """Formats a record: time with zone, level, message; further lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without its newline; control characters are escaped."""
        time = (
            datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        )
        name = ""
        if record.name.partition(".")[0] != _OURS:
            name = f"{record.name}: "
        text = super().format(record).rstrip("\n")
        if len(text) > _LONGEST:
            length = len(text)
            text = f"{text[:_LONGEST]} … ({length} characters)"
        text = _CONTROLS.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
        return f"{time} {record.levelname} {name}" + text.replace("\n", "\n  ")


def _record(message: str, level: int) -> logging.LogRecord:
    return logging.LogRecord(__name__, level, __file__, 0, message, None, None)


class _Router(logging.Handler):
    """Passes each record to the log of its run; keeps early ones."""

    def __init__(self) -> None:
        super().__init__()
        self.heading: Sequence[str] = ()
        self.early: deque[logging.LogRecord] | None = None
        self._open: list[RunLog] = []
        self._last: logging.LogRecord | None = None

    def attach(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def detach(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def add_log(self, log: RunLog) -> None:
        self._open.append(log)
        self.attach()  # where no command has called `begin_logs`
        log.write("\n".join(self.heading) or f"begun by {sys.argv[0]}")
        early, self.early = self.early, None
        for record in early or ():
            log.take(record)

    def remove_log(self, log: RunLog) -> None:
        self._open.remove(log)
        if not self._open:
            self.detach()

    def emit(self, record: logging.LogRecord) -> None:
        if record is self._last:  # of a library's own logger, and then of the root's
            return
        self._last = record
        log = _RUN.get()
        if log is not None and not log.is_closed:
            log.take(record)
        elif self.early is not None:
            self.early.append(record)
        elif self._open:  # of a thread of a library, or a task of a run that is over
            self._open[0].take(record)


_FORMAT = _Format()
_ROUTER = _Router()


def begin_logs(heading: Sequence[str]) -> None:
    """Keep records for the first log that is opened; each log begins with `heading`."""
    _ROUTER.heading, _ROUTER.early = heading, deque(maxlen=_MOST_EARLY)
    _ROUTER.attach()
