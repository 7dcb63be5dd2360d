"""The rows of a scored file without what its judge said, so that another judge's words can take their place.

Guarantee: all other columns are as they were: of JSON the row's own text byte for byte, of a table types and values.
"""

from __future__ import annotations

from functools import partial

from judgegym.data.arrow import ArrowRows
from judgegym.data.json_file import JsonFile
from judgegym.data.rows import DataSet
from judgegym.datasets.files.columns import JUDGED
from judgegym.datasets.files.own_text import without_keys
from judgegym.llm.errors import DataError


def without_judge(rows: DataSet) -> DataSet:
    """The rows without the columns that a judge has added.

    Args:
        rows: what `load_rows` has read.

    Raises:
        DataError: the first row has not all of these columns.
    """
    missing = [name for name in JUDGED if name not in rows[0].values]
    if missing:
        raise DataError(
            f"{rows.source}: --rescore: expected a file that judgegym score has written, with the columns "
            f"{', '.join(JUDGED)}; it lacks {', '.join(missing)}"
        )
    return DataSet(rows.source, _without(rows.values))


def _without(values: object) -> ArrowRows | JsonFile:
    if isinstance(values, ArrowRows):
        return values.without(JUDGED)
    if isinstance(values, JsonFile):
        return values.edited(partial(without_keys, keys=JUDGED))
    raise TypeError("expected the rows of load_rows, which know how they are stored")
