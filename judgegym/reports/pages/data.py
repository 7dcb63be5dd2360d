"""Data inside an HTML document: a browser neither runs it nor takes any of it for markup.

A block is a `<script>` of a type that no browser runs. Its content has no `<`, so that nothing in it can end the block;
what cannot be written as UTF-8 (a lone surrogate) is U+FFFD.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import cast

import orjson

from judgegym.llm.wire import JSON, scrub_all

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class DataBlock:
    """Data that the scripts of a document find by its id.

    Attributes:
        id: of the element.
        media_type: what the content is; never one that browsers run.
        content: ASCII or UTF-8 without `<`.
    """

    id: str
    media_type: str
    content: bytes


def json_block(block_id: str, value: object) -> DataBlock:
    """A block of JSON, of dataclasses and JSON values; a script reads it with `JSON.parse(element.textContent)`."""
    return DataBlock(block_id, "application/json", as_json(value).replace(b"<", b"\\u003c"))


def packed_block(block_id: str, json: bytes) -> DataBlock:
    """A block of JSON, compressed with gzip, in base64: smaller, and nothing that is parsed before it is needed."""
    return DataBlock(block_id, "application/octet-stream", b64encode(gzip.compress(json, _LEVEL, mtime=0)))


def as_json(value: object) -> bytes:
    """UTF-8 JSON of dataclasses and JSON values; their fields are the keys, and lone surrogates become U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(scrub_all(_plain(value)))


def _plain(value: object) -> JSON:
    if is_dataclass(value) and not isinstance(value, type):
        return cast(JSON, asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return cast(JSON, value)
