"""The ids of judged responses in a run of `judgegym score`: `row-17`, or `row-17/2` for the second one of a row.

Rows and responses are numbered from 0 in memory, and from 1 in an id.
"""

from __future__ import annotations

import re

_UID = re.compile(r"row-([1-9][0-9]*)(?:/([1-9][0-9]*))?")


def uid_of_row(row: int) -> str:
    """The id of a row, which is also that of its only response."""
    return f"row-{row + 1}"


def uid_of_response(row: int, number: int) -> str:
    """The id of one of a row's several responses."""
    return f"{uid_of_row(row)}/{number + 1}"


def response_of_uid(uid: object) -> tuple[int, int | None] | None:
    """The row of a response, and its number if the row has several; `None` for what is no such id."""
    found = _UID.fullmatch(uid) if isinstance(uid, str) else None
    return None if found is None else (int(found[1]) - 1, None if found[2] is None else int(found[2]) - 1)
