"""Replace a file as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

_READING_UMASK = threading.Lock()
_RANDOM = re.compile(r"[a-z0-9_]{8}")
"""What `tempfile` puts at the end of a name."""

Content = bytes | Callable[[], Iterable[bytes]]
"""The bytes of a file, or a function that gives its parts; it is called again when a write is retried."""


def write_atomic(path: Path, content: Content) -> None:
    """Write a temporary file beside `path`, sync it to the disk, and rename it.

    A device or a pipe, such as /dev/stdout, is written to, since a file in its place would be the end of it. Of a
    symbolic link the file is replaced that it leads to.

    Raises:
        OSError: it cannot be written; it names `path`, which is as it was, and no temporary file is left.
    """
    if _is_device_or_pipe(path):
        try:
            with path.open("wb") as file:
                file.writelines(_parts(content))
        except OSError as error:
            error.filename = str(path)
            raise
        return
    target = path.resolve() if path.is_symlink() else path
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target))
    except OSError as error:
        error.filename = str(path)  # not a temporary file, of which nobody has heard
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_parts(content))
            file.flush()
            os.fsync(file.fileno())  # before the rename: else a crash of the machine may leave an empty file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException as error:  # re-raised, after the temporary file is removed
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename, error.filename2 = str(path), None
        raise


def remove_unfinished(path: Path) -> None:
    """Remove the temporary files of `path` that a killed process has left; nobody may be writing it now.

    One that cannot be removed stays.
    """
    target = path.resolve() if path.is_symlink() else path
    prefix = _prefix(target)
    with contextlib.suppress(OSError):
        for entry in target.parent.iterdir():
            if entry.name.startswith(prefix) and _RANDOM.fullmatch(entry.name, len(prefix)) and entry.is_file():
                entry.unlink()


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _parts(content: Content) -> Iterable[bytes]:
    return (content,) if isinstance(content, bytes) else content()


def _is_device_or_pipe(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _umask() -> int:
    """Return the process's file mode mask; it can only be read by setting it, which one thread at a time may do."""
    with _READING_UMASK:
        mask = os.umask(0o022)
        os.umask(mask)
    return mask
