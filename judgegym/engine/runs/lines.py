"""Read back a file of JSON lines that a run has appended.

A process that was killed, or a disk that was full, leaves at most a last line without its newline; it is cut off.
Anything else that is wrong is an error that names the file and the line, and the command that repairs it (`repair.py`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON

CONFIG = "config.yaml"
_CHUNK = 1 << 16


def damage(path: Path, what: object) -> RunDirectoryError:
    """Return the error for a damaged file; of a file of a run it names the command that repairs the run."""
    if (path.parent / CONFIG).is_file():
        run = path.parent
    elif (path.with_suffix(".run") / CONFIG).is_file():  # a file of groups
        run = path
    else:
        return RunDirectoryError(f"{path}{what}")
    command = shlex.join(["judgegym", "repair", str(run)])
    return RunDirectoryError(f"{path}{what}; to drop what cannot be read, and keep the rest: {command}")


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

    def damage(self, reason: object) -> RunDirectoryError:
        """Return an error that names the file, the line, and for a file of a run the command that repairs it."""
        return damage(self.path, f", line {self.number}: {reason}")

    def fields(self) -> Mapping[str, JSON]:
        """Return the object in the line.

        Raises:
            RunDirectoryError: it is not a JSON object.
        """
        try:
            value = wire.loads(self.data)
        except ValueError as error:
            raise self.damage(f"not JSON: {error}") from error
        if not isinstance(value, Mapping):
            raise self.damage("expected an object")
        return value


@dataclass(frozen=True, slots=True)
class LinesOfFile:
    """The whole lines of a file, read anew each time that they are gone through."""

    path: Path

    def __iter__(self) -> Iterator[RawLine]:
        """Read the lines one by one, as `whole_lines` does."""
        return whole_lines(self.path)


def whole_lines(path: Path) -> Iterator[RawLine]:
    """Read the lines of a file one by one; leave out a last line without its newline. A missing file has none.

    Raises:
        RunDirectoryError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            for number, data in enumerate(file, start=1):
                if data.endswith(b"\n"):
                    yield RawLine(path, number, offset, data)
                    offset += len(data)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from error


def read_lines(path: Path) -> Iterator[RawLine]:
    """Read the lines of a file one by one; each holds a JSON object.

    At the end, a last line without its newline is cut off.

    Raises:
        RunDirectoryError: the file cannot be read, or a line is not a JSON object; then the file stays as it is.
    """
    for line in whole_lines(path):
        line.fields()
        yield line
    if path.exists():
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            cut_torn_line(descriptor)
        finally:
            os.close(descriptor)


def cut_torn_line(descriptor: int) -> int:
    """Cut an open file after its last newline; return its size."""
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _CHUNK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end
