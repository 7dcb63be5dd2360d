"""Runs within a process of the checkout: a public judge of `import judgegym` judges rows, and writes what it says."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

_PUBLIC = ("score", "status", "label", "explanation", "critique", "suspects", "left_out", "members")


def begin(judge: str, settings: str, rows: str, shown: str) -> None:
    """Judge the rows of a file, and end the process.

    Args:
        judge: the name of its class.
        settings: its keywords, as JSON.
        rows: the file.
        shown: the columns that it is shown beside question and answers, as JSON: keyword to column.
    """
    import judgegym

    opened = getattr(judgegym, judge)(**json.loads(settings))
    lines = []
    for number, row in enumerate(
        map(json.loads, Path(rows).read_text(encoding="utf-8").splitlines()), 1
    ):
        context = {name: row[column] for name, column in json.loads(shown).items() if column in row}
        answers = row.get("responses") or row["response"]
        said = _said(
            opened, row["prompt"], [answers] if isinstance(answers, str) else answers, context
        )
        lines += [{"uid": f"row-{number}.{place}", **one} for place, one in enumerate(said, 1)]
    Path("samples.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8"
    )
    os._exit(0)


def _said(
    judge: Any, question: str, answers: list[str], context: dict[str, Any]
) -> list[dict[str, Any]]:
    """What it says of each answer; an error is what it says of the first."""
    try:
        table = judge.judge_sync(question, answers, **context)
    except Exception as error:  # noqa: BLE001  # whatever it raises is what both checkouts must raise
        return [{"score": None, "raised": f"{type(error).__name__}: {error}"}]
    records = getattr(table, "records", lambda: [{}] * len(answers))()
    return [
        {
            **{name: _plain(getattr(one, name, None)) for name in _PUBLIC},
            "calls": _calls(one),
            "record": _plain(record),
        }
        for one, record in zip(table, records, strict=True)
    ]


def _calls(judgment: Any) -> list[str]:
    return [call.name for call in getattr(judgment, "calls", ())]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (int, float, bool, type(None))) else str(value)
