"""Writing to a disk that may refuse (full, over quota, read-only, failing), without losing lines.

Guarantees: no line is lost while the process lives: lines stay in memory in order, and files to be
replaced stay unchanged. No new row, group or call begins meanwhile (`ready`), so that nothing more
is paid for; those in progress finish. The writes are retried; this is logged once, and after a
limit the run ends with one message.

`write_atomic` replaces a file as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from judgegym.engine.runs.lines import DiskFile, LineWriter, OpenFile
from judgegym.llm.errors import UserError

_LONGEST_NAME = 240
"""The longest name of a temporary file, in bytes: most file systems take 255."""

Content = bytes | Callable[[], Iterable[bytes]]
"""The bytes of a file, or a function that yields its parts; a retry calls it again."""


def write_atomic(path: Path, content: Content) -> None:
    """Write a temporary file beside `path`, sync it to the disk, and rename it.

    A device or a pipe, such as /dev/stdout, is written directly, since a file would replace it. For
    a symbolic link its target is replaced.

    Raises:
        OSError: `path` cannot be written; it is unchanged, and no temporary file is left.
    """
    parts = (lambda: (content,)) if isinstance(content, bytes) else content
    target = path.resolve() if path.is_symlink() else path
    stem, token = _temporary_stem(target), secrets.token_hex(4)
    temporary = target.with_name(f"{stem}.{token}")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                file.writelines(parts())
            return
        with temporary.open("x+b") as file:
            file.writelines(parts())
            file.flush()
            # Before the rename: otherwise a crash of the machine may leave an empty file.
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:  # re-raised, after the temporary file is removed
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            # The message names the file, not its temporary one.
            error.filename, error.filename2 = str(path), None
        raise


def _temporary_stem(target: Path) -> str:
    """Return the prefix of a file's temporary names; long names are cut and get a digest."""
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST_NAME:
        return f".{target.name}"
    beginning = os.fsdecode(name[: _LONGEST_NAME - 20])
    digest = hashlib.sha256(name).hexdigest()[:16]
    return f".{beginning}-{digest}"


def remove_unfinished(path: Path) -> None:
    """Remove temporary files of `path` left by a killed process; nobody may be writing it.

    A file that cannot be removed stays.
    """
    target = path.resolve() if path.is_symlink() else path
    stem = re.escape(_temporary_stem(target))
    with contextlib.suppress(OSError):
        for entry in target.parent.iterdir():
            if re.fullmatch(rf"{stem}\.[a-z0-9_]{{8}}", entry.name) and entry.is_file():
                entry.unlink()


logger = logging.getLogger(__name__)

T = TypeVar("T")

DEADLINE_S = 600.0
_RETRY_S = 1.0


class DiskFull(UserError):
    """The disk refused writes for longer than the limit."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why the disk refuses, and since when."""

    path: Path
    reason: str
    since: float


class Disk:
    """The files of a run, and a gate that is closed while the disk refuses them."""

    def __init__(
        self,
        deadline_s: float | None = None,
        *,
        retry_s: float | None = None,
        open_file: OpenFile = DiskFile,
    ) -> None:
        """Start with an open gate.

        Args:
            deadline_s: seconds after which the run ends if the disk refuses; ten minutes by
                default.
            retry_s: seconds between two attempts; one by default.
            open_file: opens the files of `appender`.
        """
        self._deadline_s = DEADLINE_S if deadline_s is None else deadline_s
        self._retry_s = _RETRY_S if retry_s is None else retry_s
        self._open_file = open_file
        self._writers: list[LineWriter] = []
        self._fault: _Fault | None = None
        self._refused_files = 0
        self._tried_at = -self._retry_s

    @property
    def waiting(self) -> str | None:
        """Why nothing new begins, in one sentence; `None` if the disk works."""
        if self._fault is None:
            return None
        lines = sum(writer.waiting for writer in self._writers)
        queued = ""
        if lines:
            queued = f"; {lines} lines are kept in memory"
        seconds = time.monotonic() - self._fault.since
        return (
            f"{self._fault.path} has not been writable for {seconds:.0f} s "
            f"({self._fault.reason}){queued}"
        )

    def appender(self, path: Path) -> LineWriter:
        """Return a writer of lines to the file at `path`."""
        writer = LineWriter(path, self._note_fault, self._open_file)
        self._writers.append(writer)
        return writer

    async def ready(self) -> None:
        """Wait until all lines are written.

        Await it before each row, group and call, and at the end.

        Raises:
            DiskFull: the disk refused for too long.
        """
        while self._fault is not None:
            self.retry()
            if self._fault is not None:
                await asyncio.sleep(self._retry_s)

    def retry(self) -> None:
        """Retry the writes when nobody waits for `ready`.

        Raises:
            DiskFull: the disk refused for too long.
        """
        if self._fault is not None:
            self._flush()
            self._check_deadline()

    async def write(self, path: Path, content: Content, *, in_thread: bool = False) -> None:
        """Replace a file as a whole once the disk takes it; arguments as of `retry_until_written`.

        Raises:
            DiskFull: the disk refused for too long.
        """
        await self.retry_until_written(
            path, lambda: write_atomic(path, content), in_thread=in_thread
        )

    async def retry_until_written(
        self, path: Path, write: Callable[[], T], *, in_thread: bool = False
    ) -> T:
        """Call a function that writes files until the disk accepts them; return its result.

        Args:
            path: the path in messages.
            write: replaces files; called again after an `OSError`.
            in_thread: whether to call it in a thread, so that a large file does not block the event
                loop; it must use nothing that the loop changes meanwhile.

        Raises:
            DiskFull: the disk refused for too long.
        """
        is_refused = False
        try:
            while True:
                try:
                    if in_thread:
                        return await _run_to_end(write)
                    return write()
                except OSError as error:  # any error: the lines are paid for, so try again later
                    self._refused_files += not is_refused
                    is_refused = True
                    self._note_fault(path, error)
                    self._check_deadline()
                    await asyncio.sleep(self._retry_s)
        finally:
            self._refused_files -= is_refused
            self._flush()

    def close(self) -> int:
        """Try again to write pending lines, and close all files; return how many lines are lost."""
        lost = 0
        for writer in self._writers:
            missing = writer.close()
            if missing:
                logger.error("%s: %d lines could not be written and are lost", writer.path, missing)
            lost += missing
        self._writers.clear()
        return lost

    def _flush(self) -> None:
        """Write pending lines, unless that was just tried; open the gate if none is left."""
        now = time.monotonic()
        if now - self._tried_at >= self._retry_s:
            self._tried_at = now
            for writer in self._writers:
                if writer.waiting:
                    writer.flush()
        if (
            self._fault is not None
            and not self._refused_files
            and not any(writer.waiting for writer in self._writers)
        ):
            logger.info("%s can be written to again", self._fault.path)
            self._fault = None

    def _note_fault(self, path: Path, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        if self._fault is not None:
            self._fault = _Fault(path, reason, self._fault.since)
            return
        self._fault = _Fault(path, reason, time.monotonic())
        logger.warning(
            "%s cannot be written to: %s. No new rows begin; rows in progress finish and are kept "
            "in memory. Writing is retried for up to %.0f s",
            path,
            reason,
            self._deadline_s,
        )

    def _check_deadline(self) -> None:
        fault = self._fault
        if fault is not None and time.monotonic() - fault.since >= self._deadline_s:
            raise DiskFull(f"the run was stopped: {self.waiting}")


async def _run_to_end(write: Callable[[], T]) -> T:
    """Call a function in a thread; if we are cancelled, wait for its end."""
    writing = asyncio.ensure_future(asyncio.to_thread(write))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise
