"""Cells of a trainer's dataset as fields of a `POST /v1/score` body.

Trainers pass cells as their data frames hold them: Arrow structs with null fields, NumPy arrays and scalars, NaN for
what is missing, OmegaConf containers. Guarantees: a missing cell is left out; a number, a list or an object where text
is expected becomes its text, as with a label of OpenRLHF; any other cell raises a `CellError`, for that row only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from judgegym.llm import wire
from judgegym.llm.wire import JSON

LONGEST_ID = 256

Field: TypeAlias = Literal["reference", "rubric", "aspects", "baseline", "context"]
FIELDS: tuple[Field, ...] = get_args(Field)
"""What a judge may be told of a row beside its prompt."""


class CellError(ValueError):
    """A cell cannot be sent to a judge; the message names the field and the type that was found."""


def plain(value: object) -> JSON:
    """A value as JSON: arrays as lists, objects without their null fields, NaN as null.

    Raises:
        CellError: the value has no counterpart in JSON.
    """
    if hasattr(value, "tolist"):  # a NumPy array or scalar, a tensor
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    raise CellError(f"expected text, found {type(value).__name__}")


def fields_of(cells: Mapping[Field, object]) -> dict[str, JSON]:
    """The fields of a request for the cells of one row; those of missing cells are left out.

    Raises:
        CellError: a cell cannot be sent.
    """
    fields: dict[str, JSON] = {}
    for name, cell in cells.items():
        try:
            value = _FIELDS[name](plain(cell))
        except CellError as error:
            raise CellError(f"{name}: {error}") from None
        if value is not None:
            fields[name] = value
    return fields


def fields_in(row: Mapping[str, object], label: object = None) -> dict[str, JSON]:
    """The fields of a request in a row that has them under their own names, and in its label, which comes first.

    Raises:
        CellError: one cannot be sent.
    """
    return {**fields_of({name: row.get(name) for name in FIELDS}), **label_fields(label)}


def label_fields(label: object) -> dict[str, JSON]:
    """The fields of a label, which is the reference, or an object (also as JSON text) of `reference` and `rubric`.

    Raises:
        CellError: the label cannot be sent.
    """
    value = plain(label)
    given: JSON = value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            given = wire.loads(value)
        except ValueError:
            given = value
    if isinstance(given, Mapping) and ("reference" in given or "rubric" in given):
        return fields_of({"reference": given.get("reference"), "rubric": given.get("rubric")})
    return fields_of({"reference": value})


def group_id(value: JSON) -> str | int | None:
    """A cell as the id of a group or of one of its members; `None` if it can be none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return value if isinstance(value, int) or 0 < len(value) <= LONGEST_ID else None


def group_ids(group: JSON, member: JSON) -> dict[str, JSON]:
    """The fields of a request that say to which group a response belongs; an id that can be none is left out."""
    named = {"group": group_id(group), "member": group_id(member)}
    return {name: value for name, value in named.items() if value is not None}


def _text(value: JSON) -> str | None:
    return None if value is None or value == "" else value if isinstance(value, str) else str(value)


def _rubric(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {name: str(text) for name, text in value.items() if text is not None} or None
    if isinstance(value, list):
        return _text("\n".join(str(text) for text in value))
    return _text(value)


def _context(value: JSON) -> JSON:
    if isinstance(value, list):
        return [str(text) for text in value if text is not None] or None
    return _text(value)


def _aspects(value: JSON) -> JSON:
    if isinstance(value, str):
        is_json = value.lstrip().startswith("[")
        try:
            value = wire.loads(value) if is_json else [name.strip() for name in value.split(",") if name.strip()]
        except ValueError:
            raise CellError("expected names or a JSON list") from None
    if isinstance(value, Mapping):
        value = [value]
    if value is None or isinstance(value, list):
        return value or None
    raise CellError(f"expected names or objects with name and definition, found {type(value).__name__}")


_FIELDS = {"reference": _text, "baseline": _text, "rubric": _rubric, "context": _context, "aspects": _aspects}
