"""The calls of the responses that `judgegym score` has judged.

Guarantee: a response has the calls that judged it, also where these were made for an equal row, or for all
responses to its prompt. The ledger has them under the first row of those that were judged together or once for all,
which have one digest in common.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.engine.runs.response_uids import response_of_uid, uid_of_row
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.run import SavedRun
from judgegym.reports.results.sample import SavedSample

_DIGITS = 16
_NO_ROW = 2**64 - 1


class LedgerRows:
    """Under which row the ledger has the calls of each response; sixteen bytes for each."""

    def __init__(self) -> None:
        """Know of no response."""
        self._digests, self._rows = array("Q"), array("Q")

    def add(self, sample: SavedSample) -> None:
        """Note a response."""
        found = response_of_uid(sample.uid)
        self._digests.append(_number(sample.task_digest))
        self._rows.append(_NO_ROW if found is None else found[0])

    def of(self, places: Sequence[int], uids: Sequence[str]) -> Mapping[str, str]:
        """The row of each of some responses, by uid.

        Args:
            places: in which order they were added, from 0.
            uids: their uids.
        """
        first = dict.fromkeys(self._digests[place] for place in places)
        least: dict[int, int] = {}
        for digest, row in zip(self._digests, self._rows, strict=True):
            if row < least.get(digest, _NO_ROW) and digest in first:
                least[digest] = row
        return {
            uid: uid_of_row(least[self._digests[place]]) if self._digests[place] in least else uid
            for place, uid in zip(places, uids, strict=True)
        }


def _number(digest: str) -> int:
    try:
        return int(digest[:_DIGITS] or "0", 16)
    except ValueError:
        return 0


def calls_of_responses(run: SavedRun, rows: Mapping[str, str]) -> Callable[[SavedSample], Sequence[RecordedCall]]:
    """The calls of a response.

    Args:
        run: the run.
        rows: under which row the ledger has them, by uid.
    """
    calls = CallsOfRows.read(run.path, {*rows.values()})

    def of(sample: SavedSample) -> Sequence[RecordedCall]:
        found = calls.of(rows[sample.uid])
        texts = [completion.answer for completion in sample.completions]
        policy = [call for call in found if call.is_of_policy]
        about = [call for call in found if any(_shows(call, text.strip()) for text in texts)]
        return [*policy, *about] if about else found  # a text that a prompt holds in another form is found nowhere

    return of


def _shows(call: RecordedCall, text: str) -> bool:
    """Whether a call was asked about a text, which stands on lines of its own: another text may begin with it."""
    return any(f"\n{text}\n" in f"\n{message['content']}\n" for message in call.messages or ())
