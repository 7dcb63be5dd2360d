"""A unit of a data set: what is judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.data.transcripts import TranscriptTurn
from environments.runs.response_uids import uid_of_response, uid_of_row
from judgegym.datasets.rows.equal import KEY_BYTES
from judges.scorers.items import Item


@dataclass(frozen=True, slots=True)
class ToSample:
    """What a policy is asked for the responses of a row.

    Attributes:
        turns: the prompt as a conversation.
        count: how many responses are asked for.
    """

    turns: tuple[TranscriptTurn, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Unit:
    """What is judged together.

    Attributes:
        rows: the numbers of its rows, from 0: one, or the rows of a group.
        item: the prompt with the responses: those of the row, or one of each row of the group.
        several: its row has a list of responses.
        category: the category of each row.
        chosen: so many of the responses, the first ones, are preferred to the others; 0 without a preference.
        to_sample: what a policy is asked first; the item has no responses then.
    """

    rows: tuple[int, ...]
    item: Item
    several: bool
    category: tuple[str | None, ...]
    chosen: int = 0
    to_sample: ToSample | None = None

    @property
    def count(self) -> int:
        """How many responses it has, or will have."""
        return len(self.item.responses) if self.to_sample is None else self.to_sample.count

    @property
    def uids(self) -> Sequence[str]:
        """The id of each response in files of the run."""
        if self.several:
            return [uid_of_response(self.rows[0], number) for number in range(self.count)]
        return [uid_of_row(row) for row in self.rows]

    @property
    def uid(self) -> str:
        """The id of the unit in the ledger: that of its first row."""
        return uid_of_row(self.rows[0])

    @property
    def key(self) -> bytes:
        """A digest, the same for units that are equal for their judge, or for policy and judge."""
        asked = "" if self.to_sample is None else repr(self.to_sample)
        return bytes.fromhex(self.item.key(asked))[:KEY_BYTES]
