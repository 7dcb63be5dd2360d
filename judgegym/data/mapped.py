"""Files that are mapped into memory: the pages of them that a process holds are given back as it reads on.

A page that was read counts as the process's memory (its resident set) until the system needs it, so the memory of a
process that reads a mapped table seems to grow with the table. Guarantee: no more than a few megabytes of a file are
held. Nothing is changed or lost: a page that is needed again is read again. Where the system has no `/proc/self/maps`
(it is Linux's), nothing is done.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from pathlib import Path

_HELD = 32 << 20
_DONTNEED = 4  # MADV_DONTNEED of Linux
_MAPS = Path("/proc/self/maps")


class MappedFiles:
    """The files of a table, and how much of them was read since their pages were given back."""

    def __init__(self, paths: Collection[str]) -> None:
        """Find where files are mapped; they may be deleted afterwards.

        Args:
            paths: of the files, as they were opened.
        """
        self._places = list(_places({os.path.realpath(path) for path in paths}))
        self._read = 0

    @property
    def size(self) -> int:
        """The bytes that are mapped."""
        return sum(stop - start for start, stop in self._places)

    def read(self, size: int) -> None:
        """Note that so many bytes were read; give back the pages if it is time."""
        self._read += size
        if self._read >= _HELD:
            self._read = 0
            self.give_back()

    def give_back(self) -> None:
        """Give back all pages. Who reads meanwhile gets them anew."""
        for start, stop in self._places:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _DONTNEED)


def _places(paths: Collection[str]) -> list[tuple[int, int]]:
    """The addresses at which files are mapped: of nothing else, since memory that is no file's would be lost."""
    found = []
    for line in _MAPS.read_text("utf-8", "replace").splitlines() if _MAPS.exists() else ():
        addresses, _, _, _, inode, *path = line.split(maxsplit=5)
        if inode != "0" and path and path[0] in paths:
            start, _, stop = addresses.partition("-")
            found.append((int(start, 16), int(stop, 16)))
    return found
