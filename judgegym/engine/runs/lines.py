"""Files of JSON lines: splitting into lines, and appending whole lines.

`LineWriter` appends whole lines to a file.

Guarantees: the file holds whole lines in the order of `append`. Only the last line can be torn, if
the process is killed while writing it, and `LineWriter` cuts it off when it opens the file. A line
has reached the operating system when `append` returns, unless the disk refuses it: then it and all
later lines stay in memory, in order, until `flush` has written them.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON

LOCK = ".lock"
"""The lock file in a run directory."""
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class RawLine:
    """A whole line of a file.

    Attributes:
        path: the file.
        number: counted from 1.
        offset: of its first byte in the file.
        data: its bytes with the newline.
    """

    path: Path
    number: int
    offset: int
    data: bytes

    def error(self, reason: object) -> RunDirectoryError:
        """Return an error that names the file and the line."""
        return RunDirectoryError(f"{self.path}, line {self.number}: {reason}")

    def fields(self) -> Mapping[str, JSON]:
        """Return the object in the line.

        Raises:
            ValueError: it is not a JSON object.
        """
        value = wire.loads(self.data)
        if not isinstance(value, Mapping):
            raise ValueError("expected a JSON object")
        return value


def split_lines(path: Path) -> Iterator[RawLine]:
    """Read the lines of a file one by one; the last may lack its newline.

    A missing file has none.

    Raises:
        RunDirectoryError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            for number, data in enumerate(file, start=1):
                yield RawLine(path, number, offset, data)
                offset += len(data)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from error


class DiskFile:
    """A file opened to append; the operating system may write a part of the data and then fail."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if it does not exist."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def size(self) -> int:
        """Return the size of the whole lines in the file; cut off the rest."""
        size = end = os.fstat(self._descriptor).st_size
        while end > 0:
            start = max(0, end - _CHUNK)
            newline = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            self.truncate(end)
        return end

    def write(self, data: bytes) -> int:
        """Append bytes; return how many were written."""
        return os.write(self._descriptor, data)

    def truncate(self, size: int) -> None:
        """Cut the file to a size."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


OpenFile = Callable[[Path], DiskFile]
ReportFault = Callable[[Path, OSError], None]


class LineWriter:
    """Appends lines to one file."""

    def __init__(
        self,
        path: Path,
        report: ReportFault,
        open_file: OpenFile = DiskFile,
        *,
        most_waiting: int | None = None,
    ) -> None:
        """Append to the file at `path`, which is opened by the first `append`.

        Args:
            path: the file.
            report: called with the error when the disk refuses a line.
            open_file: opens the file; tests pass a failing one.
            most_waiting: the most lines kept in memory, the latest ones; all by default.
        """
        self.path = path
        self._report = report
        self._open_file = open_file
        self._file: DiskFile | None = None
        self._size = 0
        self._is_torn = False
        self._waiting: deque[bytes] = deque(maxlen=most_waiting)

    @property
    def waiting(self) -> int:
        """The number of lines kept in memory because the disk refuses them."""
        return len(self._waiting)

    def append(self, line: bytes) -> int:
        """Append a line, which ends with its only newline; return its offset in the file."""
        assert line.endswith(b"\n"), "a line ends with a newline"
        self._waiting.append(line)
        if self.flush():
            return self._size - len(line)
        return self._size + sum(map(len, self._waiting)) - len(line)

    def flush(self) -> bool:
        """Write the lines in memory; return whether none is left."""
        try:
            if self._file is None:
                self._file = self._open_file(self.path)
                self._is_torn = True
            if self._is_torn:  # of an earlier process, or cutting has failed, too
                self._cut(self._file)
            while self._waiting:
                self._write(self._file, self._waiting[0])
                self._size += len(self._waiting.popleft())
        except (
            OSError
        ) as error:  # whatever it is: the lines are paid for, and the disk may take them later
            self._report(self.path, error)
        return not self._waiting

    def close(self) -> int:
        """Try once more to write the lines in memory, and close the file; return how many are left.

        The next `append` opens it again.
        """
        if self._waiting:
            self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        return len(self._waiting)

    def drop(self) -> int:
        """Drop the lines in memory; return their number."""
        dropped = len(self._waiting)
        self._waiting.clear()
        return dropped

    def _write(self, file: DiskFile, line: bytes) -> None:
        self._is_torn = True
        try:
            while line:
                part = file.write(line)
                if part == 0:
                    raise OSError(errno.EIO, "nothing is written")
                line = line[part:]
        except OSError:
            self._cut(file)  # if it fails, too, the next attempt begins with it
            raise
        self._is_torn = False

    def _cut(self, file: DiskFile) -> None:
        """Cut off a partly written line."""
        self._size = file.size()
        self._is_torn = False
