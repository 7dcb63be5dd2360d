"""`monitor.jsonl` where no run directory of `serve` or `process` holds it: the reward server's and the plugins' own.

Guarantees: lines are whole; one process writes a file; a disk that refuses lines ends nothing: the latest thousand wait
in memory, which is said once.

The lines of an earlier process, for a run that goes on.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

_MOST_WAITING = 1_000
_LONGEST_LINE = 1 << 20


class LineFile:
    """Appends whole lines to a file that this process holds until `close`."""

    def __init__(self, path: Path) -> None:
        """Open the file, with its folder.

        Raises:
            RunDirectoryError: another process writes it, or it cannot be opened.
        """
        self._path = path
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._is_refused = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = self._file.seek(0, os.SEEK_END)
            self._file.seek(max(0, size - _LONGEST_LINE))
            torn = self._file.read().rpartition(b"\n")[2]  # by a process that was killed
            self._size = self._file.truncate(size - len(torn))
        except BlockingIOError:
            self._file.close()
            raise RunDirectoryError(f"run directory {path.parent} is in use by another process") from None
        except OSError as error:
            raise RunDirectoryError(f"run directory {path.parent} cannot be used: {error.strerror}") from error

    def append(self, line: bytes) -> None:
        """Append a line, which ends with its only newline."""
        self._waiting.append(line)
        try:
            while self._waiting:
                written = self._file.write(self._waiting[0])
                if written < len(self._waiting[0]):
                    self._file.truncate(self._size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._size += written
                self._waiting.popleft()
            self._is_refused = False
        except OSError as error:
            if not self._is_refused:
                what = f"the latest {_MOST_WAITING} lines are kept in memory"
                logger.warning("%s cannot be written to: %s; %s", self._path, error.strerror, what)
            self._is_refused = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def earlier_lines(path: Path) -> Iterator[Mapping[str, JSON]]:
    """Return the lines of an earlier process; those that cannot be read are left out, and a missing file has none."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                found = wire.loads(line)
            except ValueError:
                continue
            if isinstance(found, Mapping):
                yield found
