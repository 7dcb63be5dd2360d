"""What policy and judge were asked for the rows of a run, and what they said.

Guarantee: a call is kept compressed until it is asked for, so that the calls of the rows of a page fit into memory.
"""

from __future__ import annotations

import pickle
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from judgegym.engine.runs.recorded_calls import RecordedCall, read_calls

_QUICK = 1


class CallsOfRows:
    """The calls of some rows of a run, from `calls.jsonl` or `calls.jsonl.gz`."""

    def __init__(self) -> None:
        """Use `CallsOfRows.read`."""
        self._calls: defaultdict[tuple[str, int | None], list[bytes]] = defaultdict(list)

    @classmethod
    def read(cls, path: Path, rows: Collection[str] | None = None) -> CallsOfRows:
        """Read the ledger of a run, finished or not; without one there are no calls.

        Args:
            path: the run directory.
            rows: uids of the rows whose calls are kept; `None` for those of all rows.

        Raises:
            RunDirectoryError: the ledger is damaged.
        """
        found = cls()
        for call in read_calls(path, None if rows is None else frozenset(rows)):
            found._calls[call.row, call.group].append(zlib.compress(pickle.dumps(call), _QUICK))
        return found

    def of(self, uid: str, group: int | None = None) -> Sequence[RecordedCall]:
        """Return the calls of a row, or of one of its groups in `process`, in the order of their answers."""
        # Only bytes of this process are unpickled.
        return [pickle.loads(zlib.decompress(data)) for data in self._calls.get((uid, group), ())]
