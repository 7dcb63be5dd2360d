"""Reading of a run's line files; damaged lines are skipped.

A line is damaged if it is torn, no JSON object in UTF-8, or does not belong to its file.

Guarantees: the log says once how many lines of a file are skipped; readers change nothing; a
resumed run keeps the damaged file under another name (`….damaged`) before its readable lines
replace it atomically; the last line of a file that another process is writing does not count as
damaged. A file with JSON objects but no readable line is another kind of file, and is refused.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.lines import LOCK, RawLine, split_lines
from judgegym.judges.config.exit_code import remove_control_characters
from judgegym.llm.errors import RunDirectoryError

T = TypeVar("T")
ReadLine = Callable[[RawLine], T]
"""Reads a line of a file; raises one of `FAULTS` for a line of another kind."""
FAULTS = (AttributeError, KeyError, TypeError, ValueError)
Loss = tuple[str, str]
"""What a damaged line loses: a noun, and what happens to it."""

logger = logging.getLogger(__name__)

_DECODER = json.JSONDecoder()
_CHUNK = 1 << 20
_REPORTED: dict[Path, int] = {}
"""The number of reported damaged lines of each file, which may be read more than once."""


@dataclass(slots=True)
class _Tally:
    """Counts the lines of a file.

    Attributes:
        path: the file.
        readable: the number of readable lines.
        damaged: the number of other lines.
        foreign: why a JSON object does not belong to the file; empty if all do.
    """

    path: Path
    readable: int = 0
    damaged: int = 0
    foreign: str = ""

    def note_damage(self, line: RawLine, fault: Exception) -> None:
        self.damaged += 1
        try:
            line.fields()
        except ValueError:
            return
        reason = " ".join(str(fault).split())
        if isinstance(fault, KeyError):
            reason = f"the field {reason} is missing"
        self.foreign = self.foreign or f"line {line.number}: {reason[:300]}"

    def check(self) -> None:
        """Raise an error if it is another kind of file."""
        if self.foreign and not self.readable:
            raise RunDirectoryError(
                f"{self.path}: none of its lines can be read; for example, {self.foreign}"
            )


def read_lines(
    path: Path,
    read: ReadLine[T],
    *,
    source: Iterable[RawLine] | None = None,
    may_grow: bool = False,
) -> Iterator[tuple[RawLine, T]]:
    """Read the lines of a file without changing it. A missing file has none.

    Args:
        path: the file.
        read: reads a line.
        source: its lines, if the file is encoded in another way.
        may_grow: whether processes without a lock may be writing it.

    Raises:
        RunDirectoryError: the file cannot be read, or is of another kind.
    """
    tally = _Tally(path)
    for line in split_lines(path) if source is None else source:
        try:
            value = read(line)
        except FAULTS as fault:
            if line.data.endswith(b"\n") or not (may_grow or is_being_written(path)):
                tally.note_damage(line, fault)
            continue
        tally.readable += 1
        yield line, value
    tally.check()
    if tally.damaged:
        report_damage(path, tally.damaged)


def read_objects(path: Path) -> Iterator[tuple[RawLine, Mapping[str, object]]]:
    """Read the lines of a file, each of which holds a JSON object."""
    return read_lines(path, RawLine.fields)


def count_skipped(path: Path) -> int:
    """Return how many damaged lines of a file this process has skipped."""
    return _REPORTED.get(path.absolute(), 0)


def is_being_written(path: Path) -> bool:
    """Return whether a process has locked a file, or the run directory around or beside it."""
    for lock in (path, path.parent / LOCK, path.with_suffix(".run") / LOCK):
        try:
            descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
    return False


@dataclass(slots=True)
class _MendedFile:
    """A damaged file's readable content, as edits of the file."""

    path: Path
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Damaged bytes: their offset, their length, and what can be read of them."""
    shift: int = 0
    """How much later the lines after the last edit begin than in the file."""

    def edit(self, line: RawLine, readable: bytes) -> None:
        self.edits.append((line.offset, len(line.data), readable))
        self.shift += len(readable) - len(line.data)

    def content(self) -> Iterator[bytes]:
        """Yield the bytes of the mended file."""
        with self.path.open("rb") as file:
            for offset, length, readable in self.edits:
                while part := file.read(min(_CHUNK, offset - file.tell())):
                    yield part
                yield readable
                file.seek(offset + length)
            yield from iter(partial(file.read, _CHUNK), b"")


def mend_lines(
    path: Path, read: ReadLine[T], loss: Loss, *, salvage: bool = False
) -> Generator[tuple[RawLine, T], None, int]:
    """Read the lines of a file to which a run appends, and remove its damaged lines at the end.

    Numbers and offsets are those after the mending. No other process may be writing the file.

    Args:
        path: the file.
        read: reads a line.
        loss: what a lost line costs.
        salvage: also keep whole lines inside a damaged one; no object inside a line may look like a
            line.

    Returns:
        The number of damaged lines.

    Raises:
        RunDirectoryError: the file cannot be read or replaced, or is of another kind; it is
            unchanged.
    """
    tally, mended, lost, number = _Tally(path), _MendedFile(path), 0, itertools.count(1)
    for raw in split_lines(path):
        line = raw
        if mended.edits:
            line = RawLine(path, next(number), raw.offset + mended.shift, raw.data)
        try:
            whole = [(line, read(line))]
        except FAULTS as fault:
            tally.note_damage(raw, fault)
            whole = list(_whole_objects(line, read)) if salvage else []
            lost += sum(len(part.data) for part, _ in whole) < len(raw.data.strip())
        readable = b"".join(_add_newline(part.data) for part, _ in whole)
        if readable != raw.data:
            mended.edit(raw, readable)
            number = itertools.count(line.number + len(whole))
        for part, value in whole:
            tally.readable += 1
            yield (
                replace(part, data=_add_newline(part.data)) if readable != raw.data else part,
                value,
            )
    tally.check()
    if mended.edits:
        try:
            copy = None
            if tally.damaged:
                copy = keep_aside(path)
            write_atomic(path, mended.content)
        except OSError as error:
            raise RunDirectoryError(
                f"{path} is damaged, and cannot be replaced: {error.strerror}"
            ) from error
        if copy is not None:
            count = _format_count(lost, loss[0])
            report_damage(path, tally.damaged, copy, f"{count} {loss[1]}")
    return tally.damaged


def _whole_objects(line: RawLine, read: ReadLine[T]) -> Iterator[tuple[RawLine, T]]:
    """Yield the objects that a crash has joined to a damaged line.

    No text holds a `{"`, since its quotes are escaped.
    """
    text, start = line.data.decode("latin-1"), 0  # a character for each byte
    number, offset = line.number, line.offset
    while (start := text.find('{"', start)) >= 0:
        try:
            _, end = _DECODER.raw_decode(text, start)
            whole = RawLine(line.path, number, offset, line.data[start:end])
            value = read(whole)
        except (*FAULTS, RecursionError):
            start += 1
            continue
        yield whole, value
        number, offset, start = number + 1, offset + end - start + 1, end


def _add_newline(data: bytes) -> bytes:
    """Return a line with its newline."""
    if data.endswith(b"\n"):
        return data
    return data + b"\n"


def keep_aside(path: Path) -> Path:
    """Keep a copy of a file under a free name beside it; return the name.

    Raises:
        OSError: there is no room.
    """
    numbers = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    copy = next(
        copy
        for end in numbers
        if not (copy := path.with_name(f"{path.name}.damaged{end}")).exists()
    )
    try:
        os.link(path.resolve(), copy)
    except OSError:  # a file system without links
        shutil.copy2(path, copy)
    return copy


def report_damage(
    path: Path, count: int, copy: Path | None = None, loss: str = "", *, noun: str = "damaged line"
) -> None:
    """Log how much of a file is skipped, where it is kept, and what is lost."""
    if copy is None and count_skipped(path) == count:
        return
    _REPORTED[path.absolute()] = count
    where = ""
    if copy is not None:
        where = f" (kept in {copy.name})"
    logger.warning(
        "%s: %s skipped%s%s",
        remove_control_characters(str(path)),
        _format_count(count, noun),
        where,
        f"; {loss}" if loss else "",
    )


def _format_count(count: int, noun: str) -> str:
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}s"
