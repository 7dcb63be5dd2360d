"""The rows of an evaluation on disk: the position of each line, and how the row ended.

Guarantees: no text of a finished row is in memory; a sample is read from its file each time that it
is accessed. Rows come in the order of the data set, whatever the order of the lines. A run's file
has nothing between two lines, so a line's position follows from the lines before it, also while the
disk refuses them (`runs/lines.py`).

This module also reads the rows of an earlier run, for `--resume`: which are finished, which failed,
and which have changed since. A row counts as finished only if everything that its judge sees is
unchanged (`task_digest`). All other rows run again, or with `--retry_failed` those that failed;
calls that they have paid for come from the ledger of calls. A line written by an older version,
without its share of the headline or its gold labels, is written again with them.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import BinaryIO, Generic

from judgegym.data.lazy_sequence import LazyMap
from judgegym.data.rows import TaskT
from judgegym.data.task_list import index_uids, list_uids
from judgegym.engine.records import FINISHED, Sample, SampleReader
from judgegym.engine.runs.directory import FAILURES, SAMPLES, RunDirectory
from judgegym.engine.runs.lines import RawLine
from judgegym.environments.base import DetailT
from judgegym.environments.evaluate.row import RowRunner
from judgegym.llm.errors import RunDirectoryError

_FILES = (SAMPLES, FAILURES)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Final statuses of the rows.

    Attributes:
        statuses: the number of rows by status, in the order in which the statuses first occur.
        last_error: why the last row without a score has none; `None` if all have one.
    """

    statuses: Counter[str]
    last_error: str | None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.statuses.total()

    @property
    def finished(self) -> int:
        """Number of rows that count."""
        return sum(count for status, count in self.statuses.items() if status in FINISHED)


class SavedRows(Generic[TaskT, DetailT]):
    """Rows of one run by their numbers in the data set, with their lines in two files.

    A row has a line in `samples.jsonl` or in `failures.jsonl`.
    """

    def __init__(
        self, tasks: Sequence[TaskT], run: RunDirectory, reader: SampleReader[DetailT]
    ) -> None:
        """Begin without lines.

        Args:
            tasks: all rows.
            run: the directory with the lines.
            reader: parses a line.
        """
        self.tasks = tasks
        self.run = run
        self.reader = reader
        self._starts, self._lengths = array("q", [0]) * len(tasks), array("q", [0]) * len(tasks)
        self._statuses = [""] * len(tasks)  # empty without a line
        self._complete = bytearray(len(tasks))
        self._ends = dict.fromkeys(_FILES, 0)
        self._writers = {name: run.writer(name) for name in _FILES}
        self._files: dict[str, BinaryIO] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.tasks)

    def append(self, number: int, sample: Sample[DetailT], *, is_complete: bool) -> None:
        """Append the sample of a row to its file, and keep its position instead of it."""
        line, name = sample.to_line(), SAMPLES if sample.finished else FAILURES
        self._writers[name].append(line)
        self._starts[number], self._lengths[number] = self._ends[name], len(line)
        self._statuses[number], self._complete[number] = sample.status, is_complete
        self._ends[name] += len(line)

    def record_line(self, number: int, line: RawLine, status: str, *, is_complete: bool) -> None:
        """Record the position of a row's line."""
        self._starts[number], self._lengths[number] = line.offset, len(line.data)
        self._statuses[number], self._complete[number] = status, is_complete

    def set_end(self, name: str, end: int) -> None:
        """Record where the lines of an earlier run end in a file."""
        self._ends[name] = end

    @property
    def missing(self) -> array[int]:
        """Numbers of the rows without a line."""
        return array("q", (number for number, status in enumerate(self._statuses) if not status))

    def uids_with_lines(self) -> frozenset[str]:
        """Return the uids of the rows that have a line."""
        return frozenset(compress(list_uids(self.tasks), self._statuses))

    @property
    def are_complete(self) -> bool:
        """Whether a resumed run would add nothing to any row."""
        return all(self._complete)

    def outcomes(self) -> Outcomes:
        """Return how the rows ended; each must have a line."""
        statuses = Counter(self._statuses)
        for number in reversed(range(len(self))):
            if self._statuses[number] not in FINISHED:
                return Outcomes(statuses, self.read_sample(number).error)
        return Outcomes(statuses, None)

    def all_rows(self) -> Sequence[tuple[TaskT, Sample[DetailT]]]:
        """Return all rows with their samples.

        Each must have a line, and is read when it is accessed.
        """
        return self.where(lambda status: True)

    def where(self, counts: Callable[[str], bool]) -> Sequence[tuple[TaskT, Sample[DetailT]]]:
        """Return the rows whose status meets a condition, with their samples."""
        numbers = array("q", (n for n, status in enumerate(self._statuses) if counts(status)))
        return LazyMap(numbers, lambda number: (self.tasks[number], self.read_sample(number)))

    def read_sample(self, number: int) -> Sample[DetailT]:
        """Read the sample of a row.

        Raises:
            RunDirectoryError: the line is no longer there.
        """
        try:
            return self.reader.read(self.read_line(number))
        except ValueError as error:
            path = self.run.path / self._file_name(number)
            raise RunDirectoryError(
                f"{path}, at byte {self._starts[number]}: not the sample: {error}"
            ) from error

    def read_line(self, number: int) -> bytes:
        """Read the line of a row.

        Raises:
            RunDirectoryError: the line is no longer there.
        """
        try:
            return self._read_line(number)
        except (OSError, ValueError) as error:
            path = self.run.path / self._file_name(number)
            raise RunDirectoryError(f"{path} cannot be read: {error}") from error

    async def sort(self) -> None:
        """Sort the lines of both files into the order of the rows.

        Raises:
            DiskFull: the disk refused for too long; the files keep the lines that were appended.
        """
        await self.run.disk.ready()
        starts, ends = array("q"), dict.fromkeys(_FILES, 0)
        for number, length in enumerate(self._lengths):
            starts.append(ends[self._file_name(number)])
            ends[self._file_name(number)] += length
        paths = {name: self.run.path / name for name in _FILES}
        are_whole = all(
            path.exists() and path.stat().st_size == ends[name] for name, path in paths.items()
        )
        if starts != self._starts or not are_whole:
            await self.run.rewrite(lambda: self._lines(SAMPLES), lambda: self._lines(FAILURES))
            self._close_files()
            self._starts, self._ends = starts, ends

    def _lines(self, name: str) -> Iterator[bytes]:
        return (
            self._read_line(number)
            for number in range(len(self))
            if self._file_name(number) == name
        )

    def _file_name(self, number: int) -> str:
        if self._statuses[number] in FINISHED:
            return SAMPLES
        return FAILURES

    def _read_line(self, number: int) -> bytes:
        name = self._file_name(number)
        if self._is_closed:  # a thread that computes metrics ends when the run is stopped
            raise ValueError("the run is closed")
        if name not in self._files:
            self._files[name] = (self.run.path / name).open("rb")
        return os.pread(self._files[name].fileno(), self._lengths[number], self._starts[number])

    def close(self) -> None:
        """Close the files that samples are read from, for good."""
        self._is_closed = True
        self._close_files()

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


_NEWER_FIELDS = ("headline", "gold")
"""Fields that lines of older versions lack."""


@dataclass(frozen=True, slots=True)
class EarlierRows:
    """Statuses of the rows of an earlier run.

    Attributes:
        finished: number of finished rows.
        changed: number of rows that have changed since they were judged.
        failed: numbers of the unchanged rows that failed or lack a part of their judgment.
    """

    finished: int = 0
    changed: int = 0
    failed: Sequence[int] = ()


def read_earlier(
    saved: SavedRows[TaskT, DetailT],
    runner: RowRunner[TaskT, DetailT],
    on_sample: Callable[[Sample[DetailT]], None],
    complete: Callable[[TaskT, Sample[DetailT]], Sample[DetailT]],
) -> EarlierRows:
    """Read the lines of an earlier run, and record the positions of finished rows.

    Args:
        saved: the rows of this run; of several lines of a row, the last one counts.
        runner: computes the digest of a row, and tells whether its sample is complete.
        on_sample: called with the sample of each finished row.
        complete: completes the sample of a line that lacks fields.

    Raises:
        RunDirectoryError: a line cannot be read, or its row is not among those of this run.
    """
    numbers = index_uids(saved.tasks)
    finished, changed, failed, incomplete = 0, 0, list[int](), list[int]()
    was_finished = bytearray(len(saved))

    def parse_line(line: RawLine) -> Sample[DetailT]:
        return saved.reader.read(line.data)

    for name in _FILES:
        last = array("q", [0]) * len(numbers)  # the number of the last line of each row
        for line, sample in saved.run.lines(name, parse_line):
            if (number := numbers.get(sample.uid)) is not None:
                last[number] = line.number
        for line, sample in saved.run.lines(name, parse_line):
            saved.set_end(name, line.offset + len(line.data))
            number = numbers.get(sample.uid)
            if number is None:
                raise line.error(f"the row {sample.uid!r} is not in the dataset")
            if line.number != last[number] or was_finished[number]:
                continue
            was_finished[number] = name == SAMPLES
            task = saved.tasks[number]
            if sample.task_digest != runner.digest(task):
                changed += 1
            elif was_finished[number] and runner.is_complete(sample):
                saved.record_line(number, line, sample.status, is_complete=True)
                if any(name not in line.fields() for name in _NEWER_FIELDS):
                    incomplete.append(number)
                    sample = complete(task, sample)
                on_sample(sample)
                finished += 1
            else:
                failed.append(number)
    for number in incomplete:  # only now, since the files were read until here
        saved.append(
            number, complete(saved.tasks[number], saved.read_sample(number)), is_complete=True
        )
    return EarlierRows(finished, changed, tuple(sorted(failed)))
