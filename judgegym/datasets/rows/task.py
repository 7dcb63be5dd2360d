"""A task of a data set: a row, or the rows with the same value in a column, judged together.

Tasks, prompts and values are compared by digests of 16 bytes in one array: a dictionary of a
million digests takes hundreds of MB. Responses are numbered in the order of the rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, chain
from typing import ClassVar

import orjson

from judgegym.data.rows import Row
from judgegym.engine.completions import Completion
from judgegym.engine.runs.directory import make_response_uid, make_row_uid
from judgegym.judges.conversations.turns import Turn
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.scorers.settings import AnyJudgeSettings

KEY_BYTES = 16
"""The length of the digest of a task, a prompt or a column's value."""


def digest_text(text: bytes, size: int = KEY_BYTES) -> bytes:
    """Return a digest of `size` bytes."""
    return blake2b(text, digest_size=size).digest()


def index_first_duplicates(digests: bytes, size: int) -> array[int]:
    """Return for each digest the index of the first one that is equal to it.

    Args:
        digests: the digests, concatenated.
        size: the bytes of one digest.
    """
    import numpy as np  # late: it belongs to the extra `environments`

    texts = np.frombuffer(digests, f"S{size}")
    _, firsts, distinct = np.unique(texts, return_index=True, return_inverse=True)
    return array("q", firsts[distinct].astype("q").tobytes())


@dataclass(frozen=True, slots=True)
class ToSample:
    """The responses to sample from a policy for a row.

    Attributes:
        turns: the prompt as a conversation.
        count: the number of responses.
    """

    turns: tuple[Turn, ...]
    count: int


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A response with its judgment.

    Attributes:
        completion: the response; `None` if the policy failed.
        result: the judgment, or why the response is not judged; `None` until it is judged.
        policy_call: the call of the policy, with its cost; `None` if no policy was called, or
            another response of the call has it.
    """

    completion: Completion | None
    result: ResponseJudgment | None = None
    policy_call: CallRun | None = None

    @property
    def text(self) -> str:
        """The text to judge; empty if the response is not judged."""
        if self.result is not None or self.completion is None:
            return ""
        return self.completion.answer

    @property
    def judgment(self) -> ResponseJudgment:
        """The judgment of a judged response."""
        assert self.result is not None  # judging a task gives each response a result
        return self.result


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """A prompt with responses that are judged together.

    Attributes:
        rows: the numbers of its rows, from 0: one, or the rows of a group.
        judge_task: the prompt with the responses of the row, or with one response of each row of
            the group.
        several: its row has a list of responses.
        category: the category of each row.
        chosen: the number of preferred responses, which come first; 0 without a preference.
        to_sample: the responses to sample first; then there are none yet.
        earlier: the responses of an earlier run, if these are judged; those that may not be
            judged are empty in `judge_task`.
    """

    rows: tuple[int, ...]
    judge_task: JudgeTask
    several: bool
    category: tuple[str | None, ...]
    chosen: int = 0
    to_sample: ToSample | None = None
    earlier: tuple[JudgedResponse, ...] = ()

    @property
    def count(self) -> int:
        """The number of responses that it has, or will have."""
        if self.to_sample is None:
            return len(self.judge_task.responses)
        return self.to_sample.count

    @property
    def uids(self) -> Sequence[str]:
        """The id of each response in the run's files."""
        if self.several:
            return [make_response_uid(self.rows[0], number) for number in range(self.count)]
        return [make_row_uid(row) for row in self.rows]

    @property
    def uid(self) -> str:
        """The id of the task in the ledger: that of its first row."""
        return make_row_uid(self.rows[0])

    @property
    def key(self) -> bytes:
        """A digest; equal for tasks that are identical for the judge, or for policy and judge.

        Tasks with earlier responses are identical only if all fields of these are.
        """
        sampling = repr(self.to_sample or self.earlier) if self.to_sample or self.earlier else ""
        return bytes.fromhex(self.judge_task.key(sampling))[:KEY_BYTES]


def digest_group_value(row: Row, column: str) -> bytes:
    """Return a digest (`KEY_BYTES` bytes) of a row's value in the column of --group_by.

    Raises:
        DataError: the row has no value.
    """
    value = row.value(column)
    if value is None:
        raise row.missing_error(f"a value in {column} (--group_by)")
    return digest_text(orjson.dumps(value, default=str))


def group_rows(rows: Sequence[Row], column: str, numbers: Iterable[int]) -> list[Sequence[int]]:
    """Return the row numbers of each group, in the order of the groups' first rows.

    Args:
        rows: the whole data set.
        column: the column whose equal values make a group.
        numbers: the rows to take, from 0.

    Raises:
        DataError: a row has no value.
    """
    digests, taken = bytearray(), array("q")
    for number in numbers:
        digests += digest_group_value(rows[number], column)
        taken.append(number)
    groups: dict[int, array[int]] = {}
    for index, first in enumerate(index_first_duplicates(bytes(digests), KEY_BYTES)):
        groups.setdefault(first, array("q")).append(taken[index])
    return list(groups.values())


class ResponseIndex:
    """The positions of the responses of some rows; takes 8 bytes a row, with groups 16."""

    def __init__(
        self,
        numbers: range,
        groups: Sequence[Sequence[int]] | None,
        counts: Sequence[int],
        *,
        several: bool,
    ) -> None:
        """Number the responses of rows consecutively.

        Args:
            numbers: the rows, from 0.
            groups: the rows of each task, unless each row is a task.
            counts: the number of responses of each row.
            several: the rows have lists of responses.
        """
        self._numbers = numbers
        self._groups = groups
        self._several = several
        self._starts = array("q", accumulate(counts, initial=0))
        self._task_by_row = array("q")
        self.count = self._starts[-1]
        """The number of responses."""
        if groups is not None:
            self._task_by_row = array("q", [0]) * len(numbers)
            for task, rows in enumerate(groups):
                for row in rows:
                    self._task_by_row[row - numbers.start] = task

    def find_task_positions(self, task: int) -> Sequence[int]:
        """Return the positions of a task's responses, in their order."""
        if self._groups is not None:
            return [*chain.from_iterable(map(self.find_row_positions, self._groups[task]))]
        return self.find_row_positions(self._numbers[task])

    def find_row_positions(self, row: int) -> range:
        """Return the positions of a row's responses; empty for a row that cannot be judged."""
        index = row - self._numbers.start
        return range(self._starts[index], self._starts[index + 1])

    def find(self, row: int, number: int | None) -> int | None:
        """Return the position of a response; `None` if there is none.

        Args:
            row: the row's number.
            number: the response's number in a list, from 0; `None` for a row with one response.
        """
        if row not in self._numbers or (number is None) is self._several:
            return None
        positions = self.find_row_positions(row)
        if (number or 0) < len(positions):
            return positions[number or 0]
        return None

    def task(self, position: int) -> int:
        """Return the task of the response at a position."""
        index = bisect_right(self._starts, position) - 1
        if self._groups is None:
            return index
        return self._task_by_row[index]

    def row(self, position: int) -> tuple[int, int]:
        """Return the row of the response at a position, and the response's number in the row."""
        index = bisect_right(self._starts, position) - 1
        return self._numbers[index], position - self._starts[index]


class DatasetJudgeSettings(AnyJudgeSettings):
    """The judge of a data set."""

    how_to_gather: ClassVar[str] = (
        "--group_by COLUMN judges rows together that have one response each, "
        "--responses_per_prompt N asks for several"
    )

    @property
    def units_in_flight(self) -> int:
        """The tasks in progress at once: two per judge request, so that the judge never waits."""
        return 2 * self.judge_max_concurrency
