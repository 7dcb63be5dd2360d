"""A disk that refuses to be written to, for tests: files with a limit in bytes, and short writes.

`RefusingDisk(room=100).open` goes where `DiskFile` goes: `Disk(open_file=disk.open)`,
`LineWriter(path, report, disk.open)`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from judgegym.engine.runs import disk
from judgegym.engine.runs.disk import DEADLINE_S
from judgegym.engine.runs.lines import DiskFile


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

    def everywhere(self, patch: pytest.MonkeyPatch, *, deadline_s: float = DEADLINE_S) -> None:
        """Be the disk of all appended files in this process, and of those that are replaced while there is no room.

        A run ends after it was refused for `deadline_s` seconds.
        """
        patch.setattr(disk, "DEADLINE_S", deadline_s)
        write, truncate, fsync = DiskFile.write, DiskFile.truncate, os.fsync

        def sync(descriptor: int) -> None:
            if self.room <= 0:
                raise self.failure()
            fsync(descriptor)

        patch.setattr(
            DiskFile, "write", lambda file, data: write(file, data[: self.take(len(data))])
        )
        patch.setattr(
            DiskFile, "truncate", lambda file, size: self.give_back(lambda: truncate(file, size))
        )
        patch.setattr(os, "fsync", sync)

    def take(self, wanted: int) -> int:
        """Use up room; return how many bytes fit, at least one."""
        part = min(wanted, self.room, self.most)
        if part <= 0:
            raise self.failure()
        self.room -= part
        return part

    def give_back(self, truncate: Callable[[], None]) -> None:
        """Cut a file; the room stays used up, as it does where another program fills it at once."""
        if not self.truncates:
            raise self.failure()
        truncate()

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
        return super().write(data[: self._disk.take(len(data))])

    def truncate(self, size: int) -> None:
        self._disk.give_back(lambda: super(RefusingFile, self).truncate(size))
