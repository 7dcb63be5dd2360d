"""The ids of judged responses are read as they are written."""

from __future__ import annotations

import pytest

from judgegym.engine.runs.directory import response_of_uid, uid_of_response, uid_of_row


def test_ids_count_from_one() -> None:
    assert (uid_of_row(16), uid_of_response(16, 1)) == ("row-17", "row-17/2")


@pytest.mark.parametrize(("row", "number"), [(0, None), (16, None), (0, 0), (999_999, 63)])
def test_an_id_is_read_as_it_was_written(row: int, number: int | None) -> None:
    uid = uid_of_row(row) if number is None else uid_of_response(row, number)
    assert response_of_uid(uid) == (row, number)


@pytest.mark.parametrize("uid", ["row-0", "row-01", "row-1/0", "row-1/", "row-a", "arena-1", "row-1\n", 1, None])
def test_any_other_id_is_none_of_a_response(uid: object) -> None:
    assert response_of_uid(uid) is None
