"""Rows of tables as JSON lines.

Guarantee: every Arrow value has one text: timestamps, dates and times in ISO 8601 with all their digits, durations in
ISO 8601, decimals as text with their own digits, binary data in base64, dictionaries by their values, maps as lists of
pairs, columns of JSON text as their values. NaN and infinite numbers, which JSON has not, are null.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import orjson

from judgegym.data.stored import StoredTable, json_text_columns
from judgegym.llm import wire

if TYPE_CHECKING:
    import pyarrow


def json_texts(table: StoredTable, places: range) -> Iterator[bytes]:
    """The rows of a table at places that follow each other, each as a JSON object on one line, without its end."""
    json_text = json_text_columns(table.schema)
    for batch in table.batches(places):
        columns = [_values(batch, number, json_text) for number in range(batch.num_columns)]
        names = [wire.dumps(name) for name in batch.schema.names]
        for values in zip(*columns, strict=True):
            fields = (name + b":" + value for name, value in zip(names, values, strict=True))
            yield b"{" + b",".join(fields) + b"}"


def _values(batch: pyarrow.RecordBatch, column: int, json_text: frozenset[str]) -> Iterator[bytes]:
    """The values of a column, as JSON."""
    import pyarrow  # late: an extra

    array = batch.column(column)
    is_json = batch.schema.names[column] in json_text
    if isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.storage
    for value in array.to_pylist():
        if is_json and value is not None:
            yield wire.dumps(wire.loads(value))
        else:
            yield orjson.dumps(value, default=_plain)


def _plain(value: object) -> object:
    """A value that JSON has not."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):  # also the timestamps of pandas, which have nanoseconds
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _duration(value: timedelta) -> str:
    """A duration in seconds, with all its digits; those of pandas have nanoseconds."""
    nanoseconds = value // timedelta(microseconds=1) * 1000 + int(getattr(value, "nanoseconds", 0))
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    digits = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".")
    return f"{'-' if nanoseconds < 0 else ''}PT{digits}S"
