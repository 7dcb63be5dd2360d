"""A unit of a data set: what is judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.datasets.rows.equal import KEY_BYTES
from judgegym.engine.runs.response_uids import uid_of_response, uid_of_row
from judgegym.judges.core.turns import Turn
from judgegym.judges.scorers.items import Item


@dataclass(frozen=True, slots=True)
class ToSample:
    """What a policy is asked for the responses of a row.

    Attributes:
        turns: the prompt as a conversation.
        count: how many responses are asked for.
    """

    turns: tuple[Turn, ...]
    count: int


@dataclass(frozen=True, slots=True)
class EarlierResponse:
    """A response that a policy gave in an earlier run, as its file has it.

    Attributes:
        text: the response; `None` if the policy never gave it.
        thinking: the thinking before it; empty without any.
        finish_reason: why it ended; `None` if that is not known.
        status: why no judge may be asked about it, a status of the earlier run; `None` for one that is judged.
        reason: the same in words; empty for one that is judged.
    """

    text: str | None
    thinking: str = ""
    finish_reason: str | None = None
    status: str | None = None
    reason: str = ""

    @property
    def judged(self) -> str:
        """What the judge is asked about: the response, or nothing."""
        return "" if self.status is not None or self.text is None else self.text


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """What is judged together.

    Attributes:
        rows: the numbers of its rows, from 0: one, or the rows of a group.
        item: the prompt with the responses: those of the row, or one of each row of the group.
        several: its row has a list of responses.
        category: the category of each row.
        chosen: so many of the responses, the first ones, are preferred to the others; 0 without a preference.
        to_sample: what a policy is asked first; the item has no responses then.
        earlier: the responses of an earlier run, if it is those that are judged; of the item, the ones that may not be
            judged are empty.
    """

    rows: tuple[int, ...]
    item: Item
    several: bool
    category: tuple[str | None, ...]
    chosen: int = 0
    to_sample: ToSample | None = None
    earlier: tuple[EarlierResponse, ...] = ()

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
        """A digest, the same for units that are equal for their judge, or for policy and judge.

        Units of earlier responses are equal if these are, with all that is known of them.
        """
        asked = repr(self.to_sample or self.earlier) if self.to_sample or self.earlier else ""
        return bytes.fromhex(self.item.key(asked))[:KEY_BYTES]
