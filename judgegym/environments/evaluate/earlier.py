"""Read the rows of an earlier run, for `--resume`: which are finished, which failed, and which have changed since.

Guarantees: a row counts as finished only if everything that its judge sees is unchanged (`task_digest`). All other
rows run again, or with `--retry_failed` those that failed; what was paid for them comes from the ledger of calls. A
line of before samples said what their rows add to the headline, or their gold labels, is written again with that. Of
the lines, places are kept in memory, and no text.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from judgegym.data.rows import TaskT
from judgegym.data.task_list import positions_of
from judgegym.engine.records import Sample, SampleReader
from judgegym.engine.runs.directory import FAILURES, SAMPLES, EarlierLines
from judgegym.engine.runs.lines import RawLine
from judgegym.environments.base import DetailT
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import SavedRows

_ADDED = ("headline", "gold")
"""The fields that lines of before them lack."""


@dataclass(frozen=True, slots=True)
class EarlierRows:
    """How the rows of an earlier run stand.

    Attributes:
        finished: how many are finished.
        changed: how many have changed since they were judged.
        failed: the numbers of those that have not changed, and failed or lack a part of their judgment.
    """

    finished: int = 0
    changed: int = 0
    failed: Sequence[int] = ()


def read_earlier(
    before: EarlierLines,
    reader: SampleReader[DetailT],
    saved: SavedRows[TaskT, DetailT],
    runner: RowRunner[TaskT, DetailT],
    arrived: Callable[[Sample[DetailT]], None],
    readable: Callable[[TaskT, Sample[DetailT]], Sample[DetailT]],
) -> EarlierRows:
    """Read the lines of an earlier run, and note the places of finished rows.

    Args:
        before: the lines; of several lines of a row, the last one counts.
        reader: reads a line.
        saved: the rows of this run.
        runner: gives the digest of a row, and says whether anything of a sample is missing.
        arrived: called with the sample of each finished row.
        readable: completes the sample of a line that lacks fields.

    Raises:
        RunDirectoryError: a line cannot be read, or its row is not among those of this run.
    """
    numbers = positions_of(saved.tasks)
    finished, changed, failed, former = 0, 0, list[int](), list[int]()
    was_finished = bytearray(len(saved))
    for name, lines in ((SAMPLES, before.samples), (FAILURES, before.failures)):
        last = _last_lines(lines, numbers)
        for line in lines:
            saved.begin_after(name, line.offset + len(line.data))
            sample = _sample(line, reader)
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
                saved.note(number, line.offset, len(line.data), sample.status, is_complete=True)
                if any(name not in line.fields() for name in _ADDED):
                    former.append(number)
                    sample = readable(task, sample)
                arrived(sample)
                finished += 1
            else:
                failed.append(number)
    for number in former:  # only now, since the files were read until here
        saved.append(number, readable(saved.tasks[number], saved.sample(number)), is_complete=True)
    return EarlierRows(finished, changed, tuple(sorted(failed)))


def _last_lines(lines: Iterable[RawLine], numbers: Mapping[str, int]) -> array[int]:
    """Return for each row the number of its last line; 0 without one."""
    last = array("q", [0]) * len(numbers)
    for line in lines:
        number = numbers.get(str(line.fields().get("uid")))
        if number is not None:
            last[number] = line.number
    return last


def _sample(line: RawLine, reader: SampleReader[DetailT]) -> Sample[DetailT]:
    try:
        return reader.read(line.data)
    except ValueError as error:
        raise line.damage(f"not a sample of this environment: {error}") from error
