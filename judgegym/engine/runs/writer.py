"""Append whole lines to a file.

Guarantees: the file holds whole lines in the order of `append`; only a last one can be torn, if the process is killed
while it is written, and `LineWriter` cuts it off when it opens the file. A line has reached the operating system when
`append` returns, unless the disk refuses it: then it and all later ones stay in memory, in order, until `flush` has
written them.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from judgegym.engine.runs.lines import cut_torn_line


class AppendFile(Protocol):
    """A file opened to append, as the operating system gives it: it may write a part, and fail."""

    def size(self) -> int:
        """Return the bytes of the whole lines in the file; cut off what is after them."""

    def write(self, data: bytes) -> int:
        """Append bytes; return how many were written."""

    def truncate(self, size: int) -> None:
        """Cut the file to a size."""

    def close(self) -> None:
        """Close the file."""


class DiskFile:
    """A file of the operating system."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if it does not exist."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def size(self) -> int:
        """Return the bytes of the whole lines in the file; cut off what is after them."""
        return cut_torn_line(self._descriptor)

    def write(self, data: bytes) -> int:
        """Append bytes; return how many were written."""
        return os.write(self._descriptor, data)

    def truncate(self, size: int) -> None:
        """Cut the file to a size."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


OpenFile = Callable[[Path], AppendFile]
ReportFault = Callable[[Path, OSError], None]


class LineWriter:
    """Appends lines to one file."""

    def __init__(self, path: Path, report: ReportFault, open_file: OpenFile = DiskFile) -> None:
        """Append to the file at `path`, which is opened by the first `append`.

        Args:
            path: the file.
            report: called with the error when the disk refuses a line.
            open_file: opens the file; a test puts a failing one here.
        """
        self.path = path
        self._report = report
        self._open_file = open_file
        self._file: AppendFile | None = None
        self._size = 0
        self._is_torn = False
        self._waiting: deque[bytes] = deque()

    @property
    def waiting(self) -> int:
        """How many lines are in memory, because the disk refuses them."""
        return len(self._waiting)

    def append(self, line: bytes) -> int:
        """Append a line, which ends with its only newline; return the offset that it has in the file."""
        assert line.endswith(b"\n"), "a line ends with a newline"
        self._waiting.append(line)
        if self.flush():
            return self._size - len(line)
        return self._size + sum(map(len, self._waiting)) - len(line)

    def flush(self) -> bool:
        """Write the lines that are in memory; return whether none is left."""
        try:
            if self._file is None or self._is_torn:
                self._open()
            while self._waiting:
                self._write(self._waiting[0])
                self._size += len(self._waiting.popleft())
        except OSError as error:  # whatever it is: the lines are paid for, and the disk may take them later
            self._report(self.path, error)
        return not self._waiting

    def close(self) -> int:
        """Try once more to write the lines that are in memory, and close the file; return how many are left.

        The next `append` opens it again.
        """
        if self._waiting:
            self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        return len(self._waiting)

    def _open(self) -> None:
        """Open the file, and cut off what was written of a line."""
        if self._file is None:
            file = self._open_file(self.path)
            try:
                self._size = file.size()
            except OSError:
                file.close()
                raise
            self._file = file
        if self._is_torn:
            self._file.truncate(self._size)
            self._is_torn = False

    def _write(self, line: bytes) -> None:
        """Write a whole line, or cut back what was written of it."""
        assert self._file is not None
        written = 0
        self._is_torn = True
        try:
            while written < len(line):
                part = self._file.write(line[written:] if written else line)
                if part == 0:
                    raise OSError(errno.EIO, "nothing is written")
                written += part
        except OSError:
            self._file.truncate(self._size)  # if it fails, too, the next attempt begins with it
            self._is_torn = False
            raise
        self._is_torn = False
