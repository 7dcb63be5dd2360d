"""Which datasets were read, so that a result can say what it was measured on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from judgegym.llm.wire import JSON

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


def record(name: str, *, split: str | None, rows: int, digest: str) -> None:
    """Note that a dataset was read; outside `recording` nothing is done.

    Args:
        name: the name by which the settings call it.
        split: the split of a hub dataset; `None` for a file.
        rows: how many rows it has.
        digest: SHA-256 of the file, or of the rows of a hub dataset.
    """
    read = _READ.get()
    if read is None or any((known.name, known.split) == (name, split) for known in read):
        return
    read.append(DatasetRead(name, split, rows, f"sha256:{digest}"))
