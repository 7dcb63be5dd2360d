"""The rows of a data set that could not be judged, as a file beside the output: row, column and reason of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judgegym.data.json_file import BadLine
from judgegym.data.rows import RowError
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON


def quarantine_of(out: Path) -> Path:
    """The file of the rows that could not be judged, beside the output."""
    return out.with_name(f"{out.stem}.quarantine.jsonl")


def quarantine_lines(bad: Mapping[int, RowError], bad_lines: Sequence[BadLine] = ()) -> Iterator[bytes]:
    """A line for each row, in the order of the rows; then those of lines that are no rows.

    Args:
        bad: the errors of the rows, by their numbers from 0.
        bad_lines: lines that are no JSON objects.
    """
    for number in sorted(bad):
        error = bad[number]
        fields: dict[str, JSON] = {
            "row": number + 1,
            "place": error.place,
            "column": error.column,
            "reason": error.reason,
        }
        yield wire.dumps(fields) + b"\n"
    for line in bad_lines:
        place = f"{line.source}, line {line.number}"
        yield wire.dumps({"row": None, "place": place, "column": None, "reason": line.reason}) + b"\n"


def read_quarantine(out: Path) -> dict[int, RowError]:
    """The rows that could not be judged, by their numbers from 0; none if there is no such file.

    Raises:
        DataError: the file cannot be read.
    """
    path = quarantine_of(out)
    found: dict[int, RowError] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        try:
            fields = wire.loads(line)
            assert isinstance(fields, Mapping)
            if fields["row"] is None:
                continue  # a line that is no row
            row, place, column, reason = fields["row"], fields["place"], fields["column"], fields["reason"]
            if not isinstance(row, int) or not isinstance(reason, str) or not isinstance(column, str | None):
                raise TypeError
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise DataError(f"{path}, line {number}: expected row, column and reason") from error
        found[row - 1] = RowError(str(place), reason, column)
    return found
