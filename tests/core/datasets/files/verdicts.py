"""Added columns for tests: a function of the row's number, with scores, failures and texts of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judgegym.data.rows import DataSet, load_rows
from judgegym.datasets.files.columns import AddedColumns
from judgegym.datasets.files.writer import StoredRows, write_scored

ONE, SEVERAL = AddedColumns(several=False), AddedColumns(several=True)
SAMPLED = AddedColumns(several=True, sampled=True)


def verdict(number: int) -> dict[str, Any]:
    if number % 5 == 4:
        status, label, explanation = "judge_failed", None, "HTTP 500"
        return dict(zip(ONE.names, (None, status, label, explanation, None), strict=True))
    values = (
        (number % 7) / 7,
        "ok",
        f"[[{number % 3}]]",
        f"é 数 \n “{number}”",
        f'{{"raw":{number}}}',
    )
    return dict(zip(ONE.names, values, strict=True))


def added(number: int, columns: AddedColumns = ONE) -> dict[str, Any]:
    if not columns.several:
        return verdict(number)
    each = [verdict(number + place) for place in range(number % 3 + 1)]
    row = {name: [one[name] for one in each] for name in ONE.names}
    if columns.sampled:
        row |= {
            "policy/response": [f"{number}"],
            "policy/thinking": [None],
            "policy/finish_reason": ["stop"],
        }
    return row


def write(
    path: Path,
    out: Path,
    columns: AddedColumns = ONE,
    *,
    numbers: range | None = None,
    rows: DataSet | None = None,
) -> Path:
    """Write what `added` gives for rows of a file to another."""
    rows = rows or load_rows(str(path), split="train")
    numbers = range(len(rows)) if numbers is None else numbers
    more = [added(number, columns) for number in numbers]
    write_scored(StoredRows(rows), numbers, out, lambda: more, columns)
    return out
