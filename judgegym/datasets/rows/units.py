"""The units of a data set: what is judged together, a row or the rows of a group.

Guarantees: every row is read once before the first call, so that one that cannot be judged is an error that names it;
units that are equal for their judge are found then. Memory holds some forty bytes for each row, and no text: a unit is
read again when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import orjson

from environments.data.rows import Row
from environments.data.transcripts import TranscriptTurn
from judgegym.datasets.rows.columns import ColumnSettings
from judgegym.datasets.rows.equal import first_equals
from judgegym.datasets.rows.groups import groups_of
from judgegym.datasets.rows.places import Places
from judgegym.datasets.rows.prompts import read_turns
from judgegym.datasets.rows.responses import Responses, read_responses
from judges.llm.errors import DataError
from judges.scorers.items import Item
from judges.scorers.scorer import ItemError

KEY_BYTES = 16
_OPTIONAL = ("reference", "rubric", "baseline", "context")
_USUAL = {"reference": "reference", "rubric": "rubric", "baseline": "baseline"}
"""Where those are read that no setting names, if the data has such a column."""
_SOME = "a response that will be sampled"


def uid_of_row(row: int) -> str:
    """The id of a row (from 0) in files of the run: its number from 1."""
    return f"row-{row + 1}"


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
        """The id of each response in files of the run: `row-17`, or `row-17/2` for the second of a row."""
        if self.several:
            return [f"{self.uid}/{place + 1}" for place in range(self.count)]
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


class RowReader:
    """Reads a row as a unit of its own."""

    def __init__(self, rows: Sequence[Row], settings: ColumnSettings, sampled: int | None = None) -> None:
        """Read from `rows`.

        Args:
            rows: the whole data set.
            settings: its columns.
            sampled: so many responses are asked for, and those of the data are not read.

        Raises:
            DataError: a column that was named is not in the first row.
        """
        self.rows = rows
        self.settings = settings
        self.sampled = sampled
        first = rows[0]
        named = {name: getattr(settings, f"{name}_column") for name in (*_OPTIONAL, "category")}
        self._named = {name: column for name, column in named.items() if column is not None}
        for name, column in self._named.items():
            if column not in first.values:
                raise first.lacks(f"a column {column} (--{name}_column)")
        if settings.group_by is not None and settings.group_by not in first.values:
            raise first.lacks(f"a column {settings.group_by} (--group_by)")
        self.first = self._read(first)
        found = {**_USUAL, **self._named}
        self._optional = {name: found[name] for name in _OPTIONAL if name in found}
        for name in [name for name, column in self._optional.items() if column in self.first.columns]:
            del self._optional[name]  # it is a response, or the prompt

    @property
    def columns(self) -> Mapping[str, str]:
        """What is read from which column, for a message; as far as the first row has it."""
        first = self.rows[0].values
        what = "prompt and responses" if self.sampled is None else "prompt"
        found = {what: ", ".join(self.first.columns)}
        return found | {name: column for name, column in self._optional.items() if first.get(column) is not None}

    def responses(self, number: int) -> tuple[Row, Responses]:
        """A row, and what it has to judge.

        Raises:
            DataError: it lacks something, or is of another kind than the first row.
        """
        row = self.rows[number]
        found = self._read(row)
        if found.several != self.first.several:
            kinds = ("one response", "several responses")
            raise DataError(
                f"{row.place}: has {kinds[found.several]}, and the first row has {kinds[self.first.several]}; expected "
                "the same in all rows"
            )
        return row, found

    def _read(self, row: Row) -> Responses:
        if self.sampled is None:
            return read_responses(row, self.settings)
        prompt = read_turns(row, self.settings)
        return Responses(prompt.text, (), True, prompt.columns, turns=prompt.turns)

    def unit(self, number: int) -> Unit:
        """A row as a unit.

        Raises:
            DataError: it lacks something, or a column holds something else than text.
        """
        row, found = self.responses(number)
        texts = {name: self._text(row, name, column) for name, column in self._optional.items()}
        item = Item(
            found.prompt,
            found.texts,
            reference=texts.get("reference"),
            rubric=texts.get("rubric"),
            baseline=texts.get("baseline"),
            context=texts.get("context"),
        )
        to_sample = None if self.sampled is None else ToSample(found.turns, self.sampled)
        return Unit((number,), item, found.several, (self._category(row),), found.chosen, to_sample)

    def _text(self, row: Row, name: str, column: str) -> str | None:
        value = row.values.get(column)
        if value is None or isinstance(value, str):
            return value or None
        if name not in self._named:
            return None  # a column of the usual name that holds something else
        raise row.lacks(f"a text in {column} (--{name}_column)")

    def _category(self, row: Row) -> str | None:
        column = self.settings.category_column
        value = None if column is None else row.values.get(column)
        return value if value is None or isinstance(value, str) else orjson.dumps(value, default=str).decode()


class Units(Sequence[Unit]):
    """The units of some rows of a data set, in the order of their first rows.

    Attributes:
        reader: reads the rows.
        numbers: the rows, from 0.
        several: each row has a list of responses.
        places: where the responses are among all.
        first_equal: for each unit the first one that is equal to it, which is judged for both; each is its own first
            where responses are sampled, since those of equal prompts are independent.
        empty: how many responses are empty, and are not judged.
        chosen: of each unit how many of its responses, the first ones, are preferred to the others; empty without any.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        settings: ColumnSettings,
        check: Callable[[Item], None],
        numbers: range | None = None,
        *,
        sampled: int | None = None,
    ) -> None:
        """Read all rows.

        Args:
            rows: the whole data set.
            settings: its columns.
            check: raises `ItemError` for an item that its judge cannot judge.
            numbers: the rows to take, from 0; by default all.
            sampled: so many responses to each prompt are asked for, and those of the data are not read.

        Raises:
            DataError: a row cannot be judged; the message names it.
        """
        self.reader = RowReader(rows, settings, sampled)
        self.several = self.reader.first.several
        self.numbers = range(len(rows)) if numbers is None else numbers
        if settings.group_by is not None and self.several:
            raise DataError("--group_by: each row has several responses, which are judged together by themselves")

        self._groups = None if settings.group_by is None else groups_of(rows, settings.group_by, self.numbers)
        self.places = Places(self.numbers, self._groups)
        self.empty = 0
        self.chosen = array("I")
        keys, counts = bytearray(), array("q")
        for unit in self:
            self._check(unit, check)
            keys += unit.key
            self.empty += sum(not response.strip() for response in unit.item.responses)
            if self.several:
                counts.append(unit.count)
                self.chosen.append(unit.chosen)
        if self.several:
            self.places.set_several(counts)
        if not any(self.chosen):
            self.chosen = array("I")
        self._keys = bytes(keys)
        self.first_equal = first_equals(self._keys, KEY_BYTES) if sampled is None else array("q", range(len(self)))

    def _check(self, unit: Unit, check: Callable[[Item], None]) -> None:
        item = unit.item
        if unit.to_sample is not None:
            item = replace(item, responses=(_SOME,) * unit.count)
        if not any(response.strip() for response in item.responses):
            return  # nothing is asked about it
        try:
            check(item)
        except ItemError as error:
            row = self.reader.rows[unit.rows[0]]
            raise DataError(f"{row.place}: {error}") from None

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.numbers) if self._groups is None else len(self._groups)

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Unit]: ...
    def __getitem__(self, index: int | slice) -> Unit | Sequence[Unit]:
        """Read a unit, or several."""
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        if self._groups is None:
            return self.reader.unit(self.numbers[places])
        return _together([self.reader.unit(number) for number in self._groups[places]], self.reader)

    def __iter__(self) -> Iterator[Unit]:
        """Read all units, one after the other."""
        return (self[place] for place in range(len(self)))

    def uid(self, index: int) -> str:
        """The id of a unit in the ledger, without reading it."""
        return uid_of_row(self.numbers[index] if self._groups is None else self._groups[index][0])

    def key(self, index: int) -> bytes:
        """The digest of a unit, without reading it."""
        return self._keys[index * KEY_BYTES : (index + 1) * KEY_BYTES]


def _together(units: Sequence[Unit], reader: RowReader) -> Unit:
    """The unit of a group: the item of its first row, with the response of each row.

    Raises:
        DataError: the rows have other prompts, references, rubrics, baselines or contexts.
    """
    first = units[0]
    for unit in units[1:]:
        for name in ("prompt", *_OPTIONAL):
            if getattr(unit.item, name) != getattr(first.item, name):
                row, column = reader.rows[unit.rows[0]], reader.settings.group_by
                raise DataError(
                    f"{row.place}: has the same {column} (--group_by) as row {first.rows[0] + 1}, and another {name}"
                )
    item = Item(
        first.item.prompt,
        tuple(unit.item.response for unit in units),
        reference=first.item.reference,
        rubric=first.item.rubric,
        baseline=first.item.baseline,
        context=first.item.context,
    )
    rows = tuple(unit.rows[0] for unit in units)
    return Unit(rows, item, False, tuple(unit.category[0] for unit in units))
