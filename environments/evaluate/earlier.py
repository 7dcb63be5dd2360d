"""Read the finished rows of an earlier run, for `--resume`.

Guarantees: a row counts as finished only if everything that its judge sees is unchanged (`task_digest`). All other rows
run again; what was paid for them comes from the ledger of calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from environments.base import DetailT
from environments.data.rows import TaskT
from environments.evaluate.row import RowRunner
from environments.records import Sample, SampleReader
from environments.runs.directory import EarlierLines
from environments.runs.lines import RawLine


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class EarlierRows(Generic[DetailT]):
    """Rows of an earlier run, by uid.

    Attributes:
        finished: rows of which nothing is missing.
        changed: uids of rows that have changed since; they are judged again.
    """

    finished: Mapping[str, Sample[DetailT]]
    changed: frozenset[str] = frozenset()


def read_earlier(
    before: EarlierLines,
    reader: SampleReader[DetailT],
    tasks: Sequence[TaskT],
    runner: RowRunner[TaskT, DetailT],
) -> EarlierRows[DetailT]:
    """Read the lines of an earlier run.

    Args:
        before: the lines; of several lines of a row, the last one counts.
        reader: reads a line.
        tasks: the rows of this run.
        runner: gives the digest of a row, and says whether anything of a sample is missing.

    Raises:
        RunDirectoryError: a line cannot be read, or its row is not among `tasks`.
    """
    by_uid = {task.uid: task for task in tasks}

    def read(lines: Sequence[RawLine]) -> dict[str, Sample[DetailT]]:
        samples: dict[str, Sample[DetailT]] = {}
        for line in lines:
            try:
                sample = reader.read(line.data)
            except ValueError as error:
                raise line.error(f"not a sample of this environment: {error}") from error
            if sample.uid not in by_uid:
                raise line.error(f"the row {sample.uid!r} is not in the dataset")
            samples[sample.uid] = sample
        return samples

    samples, failures = read(before.samples), read(before.failures)
    changed = {
        uid for uid, sample in {**failures, **samples}.items() if sample.task_digest != runner.digest(by_uid[uid])
    }
    finished = {uid: sample for uid, sample in samples.items() if uid not in changed and runner.is_complete(sample)}
    return EarlierRows(finished, frozenset(changed))
