"""What a resumed run takes of an earlier one, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from environments.evaluate.earlier import EarlierRows, read_earlier
from environments.evaluate.row import RowRunner
from environments.records import Sample, SampleReader
from environments.runs.directory import EarlierLines
from environments.runs.lines import RawLine
from judges.arena.judge import ArenaDetail
from judges.llm.errors import RunDirectoryError
from tests.environments import samples_of

READER = SampleReader(ArenaDetail)


@dataclass(frozen=True)
class Row:
    uid: str
    baseline: str = "the one to beat"
    category: str | None = None

    @property
    def question(self) -> str:
        return f"Question of {self.uid}"


ROWS = [Row(f"row-{number}") for number in range(5)]
RUNNER = RowRunner[Row, ArenaDetail](
    SimpleNamespace(config=SimpleNamespace(policy_is_judge=False), dataset_answer=lambda task: None)  # type: ignore[arg-type]
)


def sample(uid: str, status: str = "ok", **fields: Any) -> Sample[ArenaDetail]:
    return samples_of.sample(uid, status, **{"task_digest": RUNNER.digest(Row(uid)), **fields})


def lines(*samples: Sample[Any], name: str = "samples.jsonl") -> list[RawLine]:
    return raw(*(each.to_line() for each in samples), name=name)


def raw(*data: bytes, name: str = "samples.jsonl") -> list[RawLine]:
    return [RawLine(Path(name), number, 0, line) for number, line in enumerate(data, start=1)]


def earlier(
    finished: Sequence[Any] = (),
    failed: Sequence[Any] = (),
    rows: Sequence[Row] = ROWS,
) -> EarlierRows[ArenaDetail]:
    return read_earlier(EarlierLines(lines(*finished), lines(*failed)), READER, rows, RUNNER)


def test_finished_rows_of_an_earlier_run_are_kept_and_failed_ones_run_again() -> None:
    good, bad = sample("row-1"), sample("row-2", "judge_failed")
    found = earlier([good], [bad])
    assert (set(found.finished), found.changed) == ({"row-1"}, frozenset())
    assert found.finished["row-1"].to_line() == good.to_line()
    assert earlier() == EarlierRows({})


def test_row_that_failed_and_was_finished_later_is_finished() -> None:
    assert set(earlier([sample("row-1")], [sample("row-1", "judge_failed")]).finished) == {"row-1"}


def test_last_of_several_lines_of_a_row_counts() -> None:
    found = earlier([sample("row-1", category="a"), sample("row-1", category="b")])
    assert found.finished["row-1"].category == "b"


@pytest.mark.parametrize("status", ["ok", "judge_failed", "invalid_completion"])
def test_row_that_changed_runs_again(status: str) -> None:
    rows = [Row("row-1", baseline="another one to beat"), Row("row-2")]
    found = earlier([sample("row-1", status), sample("row-2")], rows=rows)
    assert (set(found.finished), found.changed) == ({"row-2"}, {"row-1"})


def test_row_that_changed_and_was_judged_since_is_finished() -> None:
    found = earlier([sample("row-1", task_digest="of an earlier baseline"), sample("row-1")])
    assert (set(found.finished), found.changed) == ({"row-1"}, frozenset())
    failed_first = earlier([sample("row-1")], [sample("row-1", "judge_failed", task_digest="of an earlier baseline")])
    assert (set(failed_first.finished), failed_first.changed) == ({"row-1"}, frozenset())


def test_digest_of_a_row_tells_what_its_judge_sees() -> None:
    digests = {RUNNER.digest(row) for row in (Row("row-1"), Row("row-1", baseline="another"), Row("row-2"))}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (
            EarlierLines(lines(sample("row-1"), sample("row-99")), []),
            r"samples\.jsonl, line 2: the row 'row-99' is not",
        ),
        (
            EarlierLines([], lines(sample("row-99"), name="failures.jsonl")),
            r"failures\.jsonl, line 1: the row 'row-99' is not",
        ),
        (
            EarlierLines(raw(sample("row-1").to_line(), b'{"uid": "row-2"}\n'), []),
            r"samples\.jsonl, line 2: not a sample",
        ),
        (EarlierLines(raw(b"{}\n"), []), r"samples\.jsonl, line 1: not a sample"),
    ],
)
def test_lines_of_other_rows_or_of_something_else_are_refused(before: EarlierLines, words: str) -> None:
    with pytest.raises(RunDirectoryError, match=words):
        read_earlier(before, READER, ROWS, RUNNER)


def test_incomplete_row_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUNNER, "is_complete", lambda sample: False)
    assert earlier([sample("row-1")]).finished == {}
