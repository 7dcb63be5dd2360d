"""Labelled rows with recorded judgments, one by one: what is read of which column, and errors that name the row."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from judgegym.data.rows import Row, load_rows, value_at
from judgegym.engine.records import explained
from judgegym.judges.core.naming import did_you_mean
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym.validation.audit.judgments import TIE

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TIES = ("0", "TIE")


def _number(value: object) -> float:
    """The number of a response, from 0, by its number from 1 or its letter; `TIE`; NaN for none."""
    word = "" if value is None else str(value).upper()
    if word in _TIES:
        return TIE
    if len(word) == 1 and word in _LETTERS:
        return float(_LETTERS.index(word))
    if word and not (word.isdecimal() and len(word) < 4):
        raise ValueError(f"expected the number of a response, tie or null, found {value!r}")
    return float(word) - 1 if word else math.nan


def _orders(value: object) -> list[float]:
    """The winner in the given order, or in the given and the swapped one."""
    parts = value if isinstance(value, list) else [value]
    if len(parts) not in (1, 2):
        raise ValueError(f"expected the winner in one or two orders, found {value!r}")
    return [_number(each) for each in parts]


def _seconds(value: object) -> float:
    """A time: a number in any unit, or an ISO date."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()


Winner = Annotated[float, PlainValidator(_number)]
Orders = Annotated[list[float], PlainValidator(_orders)]
Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class LabelledRow(BaseModel):
    """The fields of a row, by the usual names of their columns; their descriptions are those of the flags."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    label: Winner = Field(math.nan, description="number of the better response, from 1")
    verdict: Orders | None = Field(None, description="number of the winner; of both orders as a list; null: unread")
    verdict_swapped: Orders | None = Field(None, description="number of the winner in the swapped order, as in the row")
    repeats: list[Orders] = Field([], description="further verdicts, each in the form of the first")
    paraphrases: dict[str, Orders] = Field({}, description="an object: verdicts under other wordings of the prompt")
    gold: float | str | None = Field(None, description="gold score or label of a response")
    score: float | str | None = Field(None, description="the judge's score or label of a response")
    models: Texts = Field([], description="who wrote each response, for self-preference")
    probability: float = Field(
        math.nan, description="the judge's probability, 0 to 1, that the first response is better, or of yes"
    )
    scores: tuple[float, float] = Field((math.nan, math.nan), description="the judge's score of each response alone")
    time: Annotated[float, PlainValidator(_seconds)] = Field(
        math.nan, description="when the row was judged: a number or an ISO date, for drift"
    )
    category: str | None = Field(None, description="category of the row")
    cluster: Any = Field(None, description="rows with the same value depend on each other: by default the prompt's")
    responses: Texts = Field([], description="the texts of the responses, or of one")


COLUMNS: Mapping[str, str] = {name: str(field.description) for name, field in LabelledRow.model_fields.items()}
_ALSO = {"responses": ("response", "answer", "completion"), "cluster": ("prompt",), "models": ("model",)}
"""Columns that are read where there is none of the usual name."""


def read_rows(data: str, columns: Mapping[str, str]) -> list[tuple[Row, LabelledRow]]:
    """Read labelled rows.

    Args:
        data: the data set.
        columns: columns with other names than usual.

    Raises:
        DataError: a row cannot be read, or two have one id; the message names file, row and field.
        SettingsError: no row has a column that is named.
    """
    found: list[tuple[Row, LabelledRow]] = []
    seen: set[str] = set()
    missing = dict(columns)
    for row in load_rows(data, split="train"):
        read = read_row(row, COLUMNS, columns)
        for what in read.model_fields_set:
            missing.pop(what, None)
        if (uid := row.uid_or_number()) in seen:
            raise DataError(f"{row.place}: the id {uid!r} is also that of another row")
        seen.add(uid)
        found.append((row, read))
    for what, name in missing.items():
        raise SettingsError(f"--{what}_column: no row of {data} has {name!r}{did_you_mean(name, found[0][0].values)}")
    return found


def read_row(row: Row, wanted: Collection[str], columns: Mapping[str, str]) -> LabelledRow:
    """Read a row.

    Args:
        row: the row.
        wanted: the fields to read.
        columns: columns with other names than usual.

    Raises:
        RowError: it cannot be read.
    """
    cells, values = row.filled(), {}
    for what in wanted:
        names = (columns[what],) if what in columns else (what, *_ALSO.get(what, ()))
        value = next((each for name in names if (each := value_at(cells, name)) not in (None, "")), None)
        if value is not None:
            values[what] = _parsed(value) if what != "responses" else value
        elif what == "verdict" and any(name in row.values for name in names):
            values[what] = None
    try:
        read = LabelledRow.model_validate(values)
    except ValidationError as error:
        raise row.error(explained(error)) from None
    if not (math.isnan(read.probability) or 0 <= read.probability <= 1):
        raise row.error(f"probability: expected a number from 0 to 1, found {read.probability:g}")
    return read


def _parsed(value: object) -> object:
    """A value as JSON says it, for files that have texts alone: lists and objects."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return wire.loads(value)
        except ValueError:
            return value
    return value


def numbers_beyond(numbers: Sequence[float], count: int) -> bool:
    """Whether a number of a response is of none of so many."""
    return any(number >= count for number in numbers)
