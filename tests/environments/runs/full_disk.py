"""A disk that refuses to be written to, for tests: files with a limit in bytes, and short writes.

`RefusingDisk(room=100).open` goes where `DiskFile` goes: `Disk(open_file=disk.open)`,
`LineWriter(path, report, disk.open)`.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from environments.runs.writer import DiskFile


@dataclass
class RefusingDisk:
    """A disk with room for some bytes more.

    Attributes:
        room: bytes that can still be written; then writes fail.
        most: bytes that one write takes at most (a short write).
        error: what a write fails with.
        truncates: whether a file can be cut while the disk is full.
        opens: whether a file can be opened.
    """

    room: int = 1 << 40
    most: int = 1 << 40
    error: int = errno.ENOSPC
    truncates: bool = True
    opens: bool = True

    def open(self, path: Path) -> RefusingFile:
        """What `Disk` and `LineWriter` take as `open_file`."""
        if not self.opens:
            raise self.failure()
        return RefusingFile(path, self)

    def failure(self) -> OSError:
        return OSError(self.error, os.strerror(self.error))


class RefusingFile(DiskFile):
    """A file on such a disk: what does not fit is written in part, and the next write fails."""

    def __init__(self, path: Path, disk: RefusingDisk) -> None:
        super().__init__(path)
        self._disk = disk

    def write(self, data: bytes) -> int:
        part = data[: min(self._disk.room, self._disk.most)]
        if not part:
            raise self._disk.failure()
        self._disk.room -= len(part)
        return super().write(part)

    def truncate(self, size: int) -> None:
        if not self._disk.truncates:
            raise self._disk.failure()
        before = self.size_on_disk()
        super().truncate(size)
        self._disk.room += before - size

    def size_on_disk(self) -> int:
        return os.fstat(self._descriptor).st_size
