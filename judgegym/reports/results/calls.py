"""Read the calls of policy and judge for the rows of a run.

Guarantee: a call is kept compressed until it is used, so that the calls of a page's rows fit into
memory.

Guarantee for `judgegym score`: a response has the calls that judged it, even if they were made for
an identical row, or for all responses to its prompt. The ledger has them under the first of these
rows, which share one digest.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from judgegym.engine.records import Sample
from judgegym.engine.runs.directory import make_row_uid, parse_response_uid
from judgegym.engine.runs.recorded_calls import RecordedCall, read_calls
from judgegym.llm.wire import JSON

_QUICK = 1


class CallsOfRows:
    """The calls of some rows of a run, from `calls.jsonl` or `calls.jsonl.gz`."""

    def __init__(self) -> None:
        """Use `CallsOfRows.read`."""
        self._calls: defaultdict[tuple[str, int | None], list[bytes]] = defaultdict(list)

    @classmethod
    def read(cls, path: Path, rows: Collection[str] | None = None) -> CallsOfRows:
        """Read the ledger of a run, finished or not; without a ledger there are no calls.

        Args:
            path: the run directory.
            rows: uids of the rows whose calls are kept; `None` for all rows.

        Raises:
            RunDirectoryError: the ledger is damaged.
        """
        calls = cls()
        for call in read_calls(path, None if rows is None else frozenset(rows)):
            calls._calls[call.row, call.group].append(zlib.compress(pickle.dumps(call), _QUICK))
        return calls

    def select(self, uid: str, group: int | None = None) -> Sequence[RecordedCall]:
        """Return the calls of a row, or of one of its groups in `process`, in answer order."""
        # Only bytes of this process are unpickled.
        return [pickle.loads(zlib.decompress(data)) for data in self._calls.get((uid, group), ())]


_DIGITS = 16
_NO_ROW = 2**64 - 1


class LedgerRows:
    """Maps each response to the row that has its calls in the ledger; takes sixteen bytes each."""

    def __init__(self) -> None:
        """Begin without a response."""
        self._digests, self._rows = array("Q"), array("Q")

    def add(self, sample: Sample[JSON]) -> None:
        """Add a response."""
        uid_parts = parse_response_uid(sample.uid)
        try:
            self._digests.append(int(sample.task_digest[:_DIGITS] or "0", 16))
        except ValueError:
            self._digests.append(0)
        self._rows.append(_NO_ROW if uid_parts is None else uid_parts[0])

    def map_rows(self, positions: Sequence[int], uids: Sequence[str]) -> Mapping[str, str]:
        """Return the ledger's row of each response, by uid.

        Args:
            positions: the positions of the responses in the order of adding, from 0.
            uids: their uids.
        """
        digests = {self._digests[position] for position in positions}
        least: dict[int, int] = {}
        for digest, row in zip(self._digests, self._rows, strict=True):
            if row < least.get(digest, _NO_ROW) and digest in digests:
                least[digest] = row
        first_uids: dict[str, str] = {}
        for position, uid in zip(positions, uids, strict=True):
            first_row = least.get(self._digests[position])
            first_uids[uid] = uid if first_row is None else make_row_uid(first_row)
        return first_uids


def filter_calls(calls: Sequence[RecordedCall], texts: Sequence[str]) -> Sequence[RecordedCall]:
    """Return a row's calls of the policy, and its calls with one of a response's texts.

    A text must match whole lines, since another text may begin with it. If prompts hold the text in
    another form, no call matches, and all calls are returned.
    """

    def shows(call: RecordedCall) -> bool:
        contents = [f"\n{message['content']}\n" for message in call.messages or ()]
        lines = [f"\n{text.strip()}\n" for text in texts]
        return any(any(line in content for content in contents) for line in lines)

    matching = [call for call in calls if shows(call)]
    if matching:
        return [*(call for call in calls if call.is_policy_call), *matching]
    return calls


def has_images(path: Path) -> bool:
    """Return whether a call of a run showed an image; true if no call was kept with its texts."""
    is_known = False
    for call in read_calls(path):
        for message in call.messages or ():
            is_known = True
            if message.get("images"):
                return True
    return not is_known
