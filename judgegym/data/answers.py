"""Existing answers to score, read from their file when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.data.opening import FILE_KINDS, kind_of
from judgegym.data.rows import Row, TaskT, by_uid, load_rows
from judgegym.data.task_list import uids_of
from judgegym.llm.errors import DataError


class Answers(Mapping[str, str]):
    """The answers to some rows by uid; each is read when it is asked for."""

    def __init__(self, rows: Mapping[str, Row], uids: Sequence[str]) -> None:
        """Give the answers in `rows` to the rows `uids`."""
        self._rows = rows
        self._uids = uids

    def __getitem__(self, uid: str) -> str:
        """Read an answer.

        Raises:
            DataError: the file has changed.
        """
        return answer_text(self._rows[uid])

    def __iter__(self) -> Iterator[str]:
        """The uids."""
        return iter(self._uids)

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self._uids)


def load_answers(path: Path, tasks: Sequence[TaskT]) -> Answers:
    """Existing answers to score, by uid.

    Args:
        path: JSONL with `uid` and `answer`, or with `messages` as Arena-Hard-Auto writes them.
        tasks: the tasks that need an answer.

    Raises:
        DataError: the file cannot be loaded, or lacks the answer to a row; leaving the row out would change the result.
    """
    if kind_of(str(path)) is None:  # else it would be looked for on the hub
        if not path.exists():
            raise DataError(f"{path}: there is no such file of answers or run directory")
        raise DataError(
            f"{path}: no file of answers, which ends with {', '.join(FILE_KINDS)}, or these with .gz, and no file of a "
            "run, beside which is its config.yaml"
        )
    rows, uids = by_uid(load_rows(str(path), split="train")), uids_of(tasks)
    missing = [uid for uid in uids if uid not in rows]
    if missing:
        raise DataError(f"{path}: no answer for {len(missing)} of {len(tasks)} rows, such as {missing[0]!r}")
    answers = Answers(rows, uids)
    for uid in uids:
        _ = answers[uid]  # report a row without text before the first call
    return answers


def answer_text(row: Row) -> str:
    """The answer of a row: `answer`, or `messages[-1].content.answer` as in Arena-Hard-Auto's files.

    Raises:
        DataError: the row has neither.
    """
    answer = row.optional_text("answer")
    if answer is None:
        messages = row.values.get("messages")
        last = messages[-1] if isinstance(messages, Sequence) and messages else None
        content = last.get("content") if isinstance(last, Mapping) else None
        text = content.get("answer") if isinstance(content, Mapping) else content
        answer = text if isinstance(text, str) else None
    if answer is None:
        raise row.lacks("text in answer or messages[-1].content.answer")
    return answer
