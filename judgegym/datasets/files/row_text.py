"""Write rows as JSON lines: JSON rows keep their original text, table rows are converted.

Guarantees: JSON text is copied unchanged, except that line breaks between tokens become a space,
since a row is one line, and that UTF-16 and UTF-32 become UTF-8. So numbers keep their digits,
strings their escapes, objects their order and spaces. An Arrow value is always written the same
way: timestamps, dates and times in ISO 8601 with all their digits, durations in ISO 8601, decimals
as strings with their own digits, binary data in base64, dictionaries by their values, maps as lists
of pairs. Columns that hold JSON text are written as JSON, not as a quoted string. NaN and infinite
numbers, which JSON lacks, are null.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import orjson

from judgegym.data.arrow import ArrowRows, drop_foreign_arguments, json_text_columns, python_values
from judgegym.llm import wire
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

_BREAKS = re.compile(rb"[\r\n][ \t\r\n]*")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]', re.DOTALL)
_LOOSE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:Infinity|NaN|\d[\d.eE+-]*)', re.DOTALL)


def one_line(text: bytes) -> bytes:
    """Return an object's text on one line, without byte order mark and surrounding white space.

    A line break can only stand between two tokens: JSON allows none within a string. It allows no
    zero byte either, so a text with one is UTF-16 or UTF-32.
    """
    if b"\0" in text:
        text = text.decode(json.detect_encoding(text), "surrogatepass").encode(
            "utf-8", "surrogatepass"
        )
    return _BREAKS.sub(b" ", text.removeprefix(codecs.BOM_UTF8).strip())


def append_keys(text: bytes, added: dict[str, JSON]) -> bytes:
    """Return an object's text on one line, with keys appended."""
    begin = one_line(text)[:-1]
    return begin + (b"," if begin[1:].strip() else b"") + wire.dumps(added)[1:]


def remove_keys(text: bytes, is_left_out: Callable[[str], bool]) -> bytes:
    """Return an object's text on one line without some keys; the others keep their text."""
    members = [member for name, member, _ in _members(one_line(text)) if not is_left_out(name)]
    return b"{" + b",".join(members) + b"}"


def parse_exact(text: bytes) -> Mapping[str, JSON]:
    """Parse the text of an object; unlike `wire.loads`, with integers of any length."""
    try:
        return cast("Mapping[str, JSON]", _scrub_surrogates(json.loads(text)))
    except RecursionError:
        # `wire.loads` reads deeper objects, but long integers inexactly. That is enough here: a
        # column so deep gets no type of Arrow, and its values are copied from the text.
        return cast("Mapping[str, JSON]", wire.loads(text))


def value_texts(text: bytes) -> Iterator[tuple[str, str]]:
    """Return an object's keys with the texts of their values: strict JSON, in which NaN is null."""
    return ((name, _strict_text(value.strip())) for name, _, value in _members(one_line(text)))


def _members(text: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield an object's members in order: name, text of key and value, text of the value alone."""
    key, depth = b"", 0
    begin = 1  # where the member begins, after the opening brace
    value_begin = 0  # where its value begins; 0 while the key is read
    for token in _TOKEN.finditer(text):
        mark = token[0][:1]
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
        if depth == 1 and mark == b":":
            value_begin = token.end()
        elif depth == 1 and mark == b'"' and not value_begin:
            key = token[0]
        elif value_begin and (not depth or (depth == 1 and mark == b",")):
            end = token.start()
            yield str(wire.loads(key)), text[begin:end], text[value_begin:end]
            begin, value_begin = token.end(), 0


def _strict_text(text: bytes) -> str:
    """Return a value's text as strict JSON: null for NaN and infinity, and no lone surrogates."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        text = _LOOSE.sub(_strict_token, text)
    return text.decode()


def _strict_token(token: re.Match[bytes]) -> bytes:
    if token[0].startswith(b'"'):
        return wire.dumps(wire.loads(token[0]))
    if math.isfinite(float(token[0])):
        return token[0]
    return b"null"


def _scrub_surrogates(value: Any) -> Any:
    """Replace lone surrogates in a value's strings."""
    if isinstance(value, str):
        return wire.scrub(value)
    if isinstance(value, dict):
        return {wire.scrub(key): _scrub_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrub_surrogates(item) for item in value]
    return value


def json_texts(rows: ArrowRows, row_range: range) -> Iterator[bytes]:
    """Yield a range of table rows, each as a JSON object on one line, without the line end."""
    json_columns = json_text_columns(rows.table.schema)
    for batch in rows.batches(row_range):
        columns = [_values(batch, number, json_columns) for number in range(batch.num_columns)]
        names = [wire.dumps(name) for name in batch.schema.names]
        for values in zip(*columns, strict=True):
            fields = (name + b":" + value for name, value in zip(names, values, strict=True))
            yield b"{" + b",".join(fields) + b"}"


def _values(
    batch: pyarrow.RecordBatch, column: int, json_columns: frozenset[str]
) -> Iterator[bytes]:
    """Yield the values of a column as JSON."""
    import pyarrow  # late: an extra

    array = batch.column(column)
    is_json = batch.schema.names[column] in json_columns
    if isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.storage
    for value in python_values(array):
        if is_json and value is not None:
            yield wire.dumps(wire.loads(value))
        else:
            # Arrow gives every tool call the arguments of all tools; those of others are null.
            yield orjson.dumps(drop_foreign_arguments(value), default=_plain)


def _plain(value: object) -> object:
    """Convert a value that JSON lacks."""
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
    """Format a duration in seconds with all its digits; those of pandas have nanoseconds."""
    nanoseconds = value // timedelta(microseconds=1) * 1000 + int(getattr(value, "nanoseconds", 0))
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    digits = f"{seconds}.{fraction:09d}".rstrip("0").rstrip(".")
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}PT{digits}S"
