"""Read the rows of an earlier run, for `--resume`: those that are finished, and answers that were paid for.

Guarantees: a row counts as finished only if everything that its judge sees is unchanged (`task_digest`); the policy's
answers are reused only if its prompt is unchanged (`prompt_digest`).
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
        failed: the other rows, with the answers that were paid for.
        changed: uids of rows that have changed since; they are judged again.
    """

    finished: Mapping[str, Sample[DetailT]]
    failed: Mapping[str, Sample[DetailT]]
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
        runner: gives the digests of a row, and says what of a sample is missing or can be reused.

    Raises:
        RunDirectoryError: a line cannot be read, or its row is not among `tasks`.
    """
    by_uid = {task.uid: task for task in tasks}
    changed: set[str] = set()

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
        for uid, sample in samples.items():
            task_digest, prompt_digest = runner.digests(by_uid[uid])
            if sample.task_digest != task_digest:
                changed.add(uid)
                samples[uid] = runner.answers_alone(sample, are_usable=sample.prompt_digest == prompt_digest)
        return samples

    samples = read(before.samples)
    finished = {uid: sample for uid, sample in samples.items() if sample.finished and runner.is_complete(sample)}
    failed = {uid: sample for uid, sample in samples.items() if uid not in finished}
    for lines in (before.failures, before.answers):
        for uid, sample in read(lines).items():
            # The line with more answers counts: a resumed run that was interrupted has fewer.
            if uid not in finished and (
                uid not in failed or runner.answers_held(sample) > runner.answers_held(failed[uid])
            ):
                failed[uid] = sample
    return EarlierRows(finished, failed, frozenset(changed - finished.keys()))
