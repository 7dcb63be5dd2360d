"""What is selected, written as a layout: JSONL or Parquet, by the ending of the file.

Guarantees: the file is written as a whole or not at all; the same selection gives the same bytes. Rows are read and
written piece by piece, so that memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from judgegym.datasets.files.columns import is_parquet
from judgegym.datasets.files.parquet import parts_of_tables
from judgegym.datasets.select.candidates import Candidates
from judgegym.datasets.select.layouts import OutputRow, Rows
from judgegym.datasets.select.rules import Labels, Rule, is_below
from judgegym.datasets.select.scored import ScoredTexts
from judgegym.datasets.select.selection import Selection
from judgegym.engine.runs.disk import write_atomic
from judgegym.llm import wire
from judgegym.llm.errors import UserError

_AT_ONCE = 500
"""Rows of Parquet that are in memory together: a row group."""


def picked(texts: ScoredTexts, candidates: Candidates, selection: Selection, rule: Rule) -> Iterator[OutputRow]:
    """What is selected, with its texts, in the order of the prompts."""
    for number, (chosen, rejected) in enumerate(zip(selection.chosen, selection.rejected, strict=True)):
        row, response = candidates.row(chosen)
        scored, answered = texts.read(row)
        worse_row, worse = candidates.row(rejected)
        worse_scored, other = texts.read(worse_row)
        yield OutputRow(
            number,
            scored.row.place,
            answered.prompt,
            answered.responses[response],
            other.responses[worse],
            source=scored.row.values,
            score=scored.score[response],
            rejected_score=worse_scored.score[worse],
        )
    for number, place in enumerate(selection.singles):
        row, response = candidates.row(place)
        scored, answered = texts.read(row)
        label = not (isinstance(rule, Labels) and is_below(candidates.candidate(place), rule.score))
        yield OutputRow(
            number,
            scored.row.place,
            answered.prompt,
            answered.responses[response],
            label=label,
            source=scored.row.values,
            score=scored.score[response],
        )


def each_labelled(pairs: Iterator[OutputRow]) -> Iterator[OutputRow]:
    """Both responses of each pair, with a label."""
    for number, pair in enumerate(pairs):
        yield replace(pair, number=2 * number, rejected=())
        yield replace(
            pair,
            number=2 * number + 1,
            response=pair.rejected,
            rejected=(),
            label=False,
            score=pair.rejected_score,
        )


def write_rows(path: Path, rows: Rows, content: Iterator[OutputRow]) -> int:
    """Write them; the folder is made if it is not there. Returns how many rows were written.

    Raises:
        DataError: a text is asked for, and there are several turns.
        UserError: the file cannot be written.
    """
    written = 0

    def counted() -> Iterator[OutputRow]:
        nonlocal written
        for each in content:
            written += 1
            yield each

    parts = _parquet if is_parquet(path) else _lines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda: parts(rows, counted()))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return written


def _lines(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    return (wire.dumps(rows.row(each)) + b"\n" for each in content)


def _parquet(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    import pyarrow  # late: an extra

    schema = rows.schema()
    groups = iter(lambda: [rows.row(each) for each in islice(content, _AT_ONCE)], [])
    return parts_of_tables(schema, (pyarrow.Table.from_pylist(group, schema=schema) for group in groups))
