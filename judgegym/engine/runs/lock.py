"""The lock of a directory: one process at a time uses it.

Guarantees: two processes never hold one directory, whatever the order in which they open, lock and remove the lock
file; the kernel frees the lock of a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from judgegym.llm.errors import RunDirectoryError

LOCK = ".lock"


class DirectoryLock:
    """Holds a directory from `take` to `release`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use `DirectoryLock.take`."""
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, directory: Path) -> DirectoryLock:
        """Create the lock file and lock it.

        A holder removes the file when it releases the lock. Whoever had opened the file before that gets a lock on a
        file that is in no directory: it compares the two files after locking, and begins again.

        Raises:
            RunDirectoryError: another process holds the directory, or the file cannot be created.
        """
        path = directory / LOCK
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise RunDirectoryError(f"run directory {directory}: {error.strerror}") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise RunDirectoryError(f"run directory {directory} is in use by another process") from None
            except OSError as error:
                os.close(descriptor)
                raise RunDirectoryError(f"run directory {directory} cannot be locked: {error.strerror}") from error
            if _is_same_file(descriptor, path):
                return cls(path, descriptor)
            os.close(descriptor)

    def release(self) -> None:
        """Remove the lock file, while it is held, and unlock it."""
        self._path.unlink(missing_ok=True)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # closing is not enough if a forked child has the descriptor, too
        os.close(self._descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Return whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
