"""Which datasets were read, so that a result can say what it was measured on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import orjson

from judges.llm.wire import JSON

_READ: ContextVar[list[DatasetRead] | None] = ContextVar("datasets that were read", default=None)


@dataclass(frozen=True, slots=True)
class DatasetRead:
    """A dataset that was read.

    Attributes:
        name: the file, or the name on the hub.
        split: the split on the hub; `None` for a file.
        rows: how many rows it has.
        digest: SHA-256 of the file, as `sha256sum` gives it; of a hub dataset, of its rows as JSON.
    """

    name: str
    split: str | None
    rows: int
    digest: str

    def to_json(self) -> dict[str, JSON]:
        """As `metrics.json` holds it."""
        return {"name": self.name, "split": self.split, "rows": self.rows, "digest": self.digest}


@contextmanager
def recording() -> Iterator[list[DatasetRead]]:
    """A list to which each dataset is added that is read within the block, once."""
    read: list[DatasetRead] = []
    token = _READ.set(read)
    try:
        yield read
    finally:
        _READ.reset(token)


def record(name: str, rows: Sequence[Mapping[str, JSON]], *, path: Path | None, split: str) -> None:
    """Note that a dataset was read, from a file or from the hub; outside `recording` nothing is done.

    Args:
        name: the name by which the settings call it.
        rows: its rows.
        path: the file; `None` for a hub dataset.
        split: the split of a hub dataset.
    """
    read = _READ.get()
    if read is None or any((known.name, known.split) == (name, None if path else split) for known in read):
        return
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else _digest_of(rows)
    read.append(DatasetRead(name, None if path else split, len(rows), f"sha256:{digest}"))


def _digest_of(rows: Sequence[Mapping[str, JSON]]) -> str:
    hashed = hashlib.sha256()
    for row in rows:
        line = orjson.dumps(row, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
        hashed.update(line + b"\n")
    return hashed.hexdigest()
