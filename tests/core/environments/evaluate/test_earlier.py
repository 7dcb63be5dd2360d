"""What a resumed run takes of an earlier one, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.engine.records import Sample, SampleReader
from judgegym.engine.runs.directory import RunDirectory
from judgegym.environments.evaluate.row import RowRunner
from judgegym.environments.evaluate.saved import EarlierRows, SavedRows, read_earlier
from judgegym.judges.arena import ArenaDetail
from judgegym.llm.errors import RunDirectoryError
from tests.core.engine import samples_of

READER = SampleReader(ArenaDetail)


@dataclass(frozen=True)
class Row:
    uid: str
    baseline: str = "the one to beat"
    category: str | None = None

    @property
    def question(self) -> str:
        return f"Question of {self.uid}"


ROWS = tuple(Row(f"row-{number}") for number in range(5))
RUNNER = RowRunner[Row, ArenaDetail](
    SimpleNamespace(config=SimpleNamespace(policy_is_judge=False), dataset_answer=lambda task: None)  # type: ignore[arg-type]
)


def sample(uid: str, status: str = "ok", **fields: Any) -> Sample[ArenaDetail]:
    return samples_of.sample(uid, status, **{"task_digest": RUNNER.digest(Row(uid)), **fields})


def as_it_is(row: Row, sample: Sample[ArenaDetail]) -> Sample[ArenaDetail]:
    return sample


def lines(*samples: Sample[Any]) -> bytes:
    return b"".join(each.to_line() for each in samples)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    directory = RunDirectory(tmp_path / "run", config={}, matters={}, resume=False)
    yield directory
    directory.close()


@dataclass
class Earlier:
    """What was read of an earlier run in a directory."""

    run: RunDirectory
    rows: Sequence[Row] = ROWS
    arrived: list[Sample[Any]] = field(default_factory=list)
    counts: EarlierRows = field(default_factory=EarlierRows)

    def read(
        self, finished: Sequence[Sample[Any]] = (), failed: Sequence[Sample[Any]] = ()
    ) -> Earlier:
        for name, samples in (("samples.jsonl", finished), ("failures.jsonl", failed)):
            (self.run.path / name).write_bytes(lines(*samples))
        self.saved = SavedRows(self.rows, self.run, READER)
        self.counts = read_earlier(self.saved, RUNNER, self.arrived.append, as_it_is)
        return self

    @property
    def finished(self) -> dict[str, Sample[Any]]:
        missing = set(self.saved.missing)
        return {
            row.uid: self.saved.read_sample(n)
            for n, row in enumerate(self.rows)
            if n not in missing
        }


def test_last_of_several_lines_of_a_row_counts(run: RunDirectory) -> None:
    twice = [sample("row-1", category="a"), sample("row-2"), sample("row-1", category="b")]
    found = Earlier(run).read(twice)
    assert found.finished["row-1"].category == "b"
    assert found.counts == EarlierRows(2)
    assert [(each.uid, each.category) for each in found.arrived] == [
        ("row-2", "math"),
        ("row-1", "b"),
    ]


@pytest.mark.parametrize(
    ("finished", "failed", "words"),
    [
        (
            lines(sample("row-1"), sample("row-99")),
            b"",
            r"samples\.jsonl, line 2: the row 'row-99' is not",
        ),
        (b"", lines(sample("row-99")), r"failures\.jsonl, line 1: the row 'row-99' is not"),
        (b"{}\n", b"", r"samples\.jsonl: .*for example, line 1: uid: Field required"),
    ],
)
def test_lines_of_other_rows_or_of_something_else_are_refused(
    finished: bytes, failed: bytes, words: str, run: RunDirectory
) -> None:
    (run.path / "samples.jsonl").write_bytes(finished)
    (run.path / "failures.jsonl").write_bytes(failed)
    with pytest.raises(RunDirectoryError, match=words):
        read_earlier(SavedRows(ROWS, run, READER), RUNNER, lambda sample: None, as_it_is)
