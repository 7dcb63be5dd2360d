"""The columns that scoring adds to a data set: their names, their order, their types.

Guarantee: all code that writes or reads a scored file takes names and types from here. A row with
one response has single values; a row with several has a list in each column, in the order of the
row's responses.

The output is checked before the first judge call, so that a run does not fail at its end.

Guarantee: an output that passes can be written, unless the disk refuses or the data set changes
meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from judgegym.data.arrow import ArrowRows
from judgegym.data.opening import is_pattern
from judgegym.data.rows import DataSet, Row
from judgegym.datasets.rows.questions import has_one_value, is_verdict_column, verdict_values
from judgegym.judges.config.extras import report_missing_extra, require
from judgegym.judges.core.judgment import NamedVerdict
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON

SCORE, STATUS, LABEL = "judge/score", "judge/status", "judge/label"
EXPLANATION, DETAIL = "judge/explanation", "judge/detail"
RESPONSE, THINKING, FINISH_REASON = "policy/response", "policy/thinking", "policy/finish_reason"

BAD_ROW = "bad_row"
"""The status of a row that could not be judged and was skipped by --on_bad_row=skip."""

JUDGED = (SCORE, STATUS, LABEL, EXPLANATION, DETAIL)
SAMPLED = (RESPONSE, THINKING, FINISH_REASON)

JSON_LINES, PARQUET = ".jsonl", ".parquet"
ENDINGS = (JSON_LINES, PARQUET)
"""The file extensions that scoring and selecting write."""
MOST_COLUMNS = 2_000
"""The most columns of a Parquet file that is made of JSON rows."""

_LONGEST_NAME = 255
"""The most bytes of a file name on most file systems."""
_LONGEST_ENDING = ".quarantine.jsonl"


def has_known_ending(path: Path) -> bool:
    """Return whether a file has one of these extensions."""
    return path.suffix.lower() in ENDINGS


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, not JSON lines."""
    return path.suffix.lower() == PARQUET


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns that scoring adds.

    Attributes:
        several: a row has a list of responses, so each column holds lists.
        sampled: the policy's responses are added before the judge's columns; these are always
            lists.
        verdicts: the columns by aspect or criterion, after the judge's other columns.
    """

    several: bool
    sampled: bool = False
    verdicts: tuple[str, ...] = ()

    @classmethod
    def from_names(
        cls, names: Sequence[str], data_columns: Collection[str], *, several: bool
    ) -> AddedColumns | None:
        """Return the added columns of a scored file.

        Args:
            names: all columns of the file, in their order.
            data_columns: the columns of the data set.
            several: a row has a list of responses.

        Returns:
            The columns; `None` if scoring did not write the file.
        """
        end = len(names)
        while end and is_verdict_column(names[end - 1]):
            end -= 1
        if tuple(names[max(0, end - len(JUDGED)) : end]) != JUDGED:
            return None
        before = tuple(names[max(0, end - len(JUDGED) - len(SAMPLED)) : end - len(JUDGED)])
        return cls(
            several,
            sampled=before == SAMPLED and not {*before} & {*data_columns},
            verdicts=tuple(names[end:]),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in their order."""
        if self.sampled:
            return (*SAMPLED, *JUDGED, *self.verdicts)
        return (*JUDGED, *self.verdicts)

    def arrow_types(self) -> Mapping[str, Any]:
        """Return the Arrow type of each column, in order; with several responses, lists of it.

        Scores and verdicts on one aspect or criterion are float64, lists of verdicts are structs,
        all others are text.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        with report_missing_extra("data"):
            import pyarrow  # late: an extra

        number, text = pyarrow.float64(), pyarrow.string()
        plain = {name: number if is_number(name) else text for name in self.names}
        verdict_type = pyarrow.struct([("name", text), ("points", number), ("value", number)])
        plain |= {
            name: pyarrow.list_(verdict_type) for name in self.verdicts if not has_one_value(name)
        }
        return {
            name: pyarrow.list_(kind) if self.several or name in SAMPLED else kind
            for name, kind in plain.items()
        }

    def make_row_values(self, responses: Sequence[Mapping[str, JSON]]) -> dict[str, JSON]:
        """Combine the responses' values to a row's added columns; further keys are ignored.

        Raises:
            KeyError: a response lacks one of the columns.
            ValueError: there are several responses, or none, of a row that has one.
        """
        if self.several:
            return {name: [entry[name] for entry in responses] for name in self.names}
        (response,) = responses
        return {name: response[name] for name in self.names}

    def make_bad_row_values(self, reason: str) -> dict[str, JSON]:
        """Return the added values of a row that could not be judged: no score, and the reason."""
        nulls: dict[str, JSON] = dict.fromkeys((*SAMPLED, *self.verdicts))
        return self.make_row_values([{**nulls, **judged_values(None, BAD_ROW, None, reason, {})}])

    def order_values(self, added: Mapping[str, JSON]) -> dict[str, JSON]:
        """Put a row's added values into the order of the columns; lone surrogates become U+FFFD.

        Raises:
            ValueError: the keys are not exactly the columns of `names`.
        """
        if len(added) != len(self.names) or not all(name in added for name in self.names):
            expected, names = ", ".join(self.names), ", ".join(added)
            raise ValueError(f"expected the columns {expected}; found {names}")
        return {name: wire.scrub_all(added[name]) for name in self.names}

    def table_values(self, added: Mapping[str, JSON]) -> dict[str, JSON]:
        """Do the same for a table, whose columns have one type: `judge/detail` is JSON text."""
        values = self.order_values(added)
        detail = values[DETAIL]
        if isinstance(detail, list):
            return {**values, DETAIL: [_as_text(entry) for entry in detail]}
        return {**values, DETAIL: _as_text(detail)}


def is_number(name: str) -> bool:
    """Return whether an added column holds numbers."""
    return name == SCORE or has_one_value(name)


def _as_text(detail: JSON) -> str | None:
    if detail is None or isinstance(detail, str):
        return detail
    return orjson.dumps(detail).decode()


def judged_values(
    score: float | None,
    status: str,
    label: str | None,
    explanation: str,
    components: Mapping[str, Any],
    *,
    verdicts: Sequence[NamedVerdict] = (),
    columns: Sequence[str] = (),
) -> dict[str, JSON]:
    """Return a response's judgment by column.

    Args:
        score: from 0 to 1; `None` if judging failed.
        status: how judging ended.
        label: the verdict in the judge's own words.
        explanation: the judge's reasons, or the error.
        components: the components of the score.
        verdicts: the verdicts on aspects or criteria.
        columns: the columns for verdicts.
    """
    if score is None:
        detail: JSON = None
    else:
        detail = {name: components[name] for name in sorted(components)}
    judged: dict[str, JSON] = {
        SCORE: score,
        STATUS: status,
        LABEL: label,
        EXPLANATION: explanation,
        DETAIL: detail,
    }
    return {**judged, **verdict_values(columns, verdicts, components)}


def check_out(out: Path, *, data: str | None = None) -> None:
    """Check that a file can be written, and create its folder.

    Args:
        out: the file to write.
        data: the data set that is read: a file or a name on the hub.

    Raises:
        SettingsError: the file has another extension, is a folder or is the data set itself; or its
            folder cannot be created or written to.
        MissingExtraError: Parquet needs the extra `data`.
    """
    if not has_known_ending(out):
        raise SettingsError(
            f"--out: expected a file with the ending .parquet or .jsonl; found {out}"
        )
    if is_parquet(out):
        require("data")
    _check_length(out)
    if out.is_dir():
        raise SettingsError(f"--out: {out} is a folder; expected a file")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"--out: the folder {out.parent} cannot be created: {error.strerror}"
        ) from error
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise SettingsError(f"--out: the folder {out.parent} cannot be written to")
    data_path = Path(data).expanduser() if data is not None else None
    if (
        data is not None
        and is_pattern(data)
        and out.absolute().match(str(Path(data).expanduser().absolute()))
    ):
        raise SettingsError(
            f"--out: {out} would be one of the files of {data}; name one that the pattern leaves "
            "out"
        )
    if data_path is not None and out.exists() and data_path.exists() and out.samefile(data_path):
        raise SettingsError(
            f"--out: {out} is the data set itself, which is not overwritten; name another file"
        )


def _check_length(out: Path) -> None:
    """Check that the name leaves room for the extensions of the files beside it."""
    size = len(os.fsencode(out.stem))
    most = _LONGEST_NAME - len(_LONGEST_ENDING)
    if size > most:
        raise SettingsError(
            f"--out: the name {out.stem[:20]}… has {size} bytes without its ending; expected at "
            f"most {most}, since files beside it have its name with endings such as "
            f"{_LONGEST_ENDING}"
        )


def check_columns(rows: Sequence[Row], columns: AddedColumns, out: Path) -> None:
    """Check that the rows leave room for the added columns.

    Raises:
        DataError: a row has a column of one of the added names; or rows of JSON have more different
            keys than a Parquet file can have columns.
    """
    values = rows.values if isinstance(rows, DataSet) else None
    if isinstance(values, ArrowRows):
        _check_names(rows[0], values.table.schema.names, columns)
        return
    names: set[str] = set()
    for row in rows:
        if not names.issuperset(row.values):
            _check_names(row, list(row.values), columns)
            names.update(row.values)
            if is_parquet(out) and len(names) > MOST_COLUMNS:
                raise too_many_columns(rows.source if isinstance(rows, DataSet) else row.source)
            if len(names) > MOST_COLUMNS:
                names.clear()  # JSON lines have no limit of columns: do not fill memory with names


def too_many_columns(source: str) -> DataError:
    """Return the error for rows with more keys than Parquet can have columns."""
    return DataError(
        f"{source}: the rows have more than {MOST_COLUMNS} different keys, which cannot all be "
        "columns of Parquet; give --out the ending .jsonl"
    )


def _check_names(row: Row, names: Sequence[str], columns: AddedColumns) -> None:
    own_names = [name for name in columns.names if name not in columns.verdicts]
    taken = [name for name in own_names if name in names]
    taken += filter(is_verdict_column, names)
    if taken and not columns.sampled and all(name in names for name in JUDGED):
        raise DataError(
            f"{row.place}: there is a column {taken[0]} already, as in a file that judgegym score "
            "has written; use --rescore to judge its responses again, or score the file from "
            "which it was made"
        )
    if taken:
        others = ""
        if taken[1:]:
            others = f" (and {', '.join(taken[1:])})"
        raise DataError(
            f"{row.place}: there is a column {taken[0]} already, which scoring adds{others}; "
            "rename or drop it first, or score the file from which this one was made"
        )
