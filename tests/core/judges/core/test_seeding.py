import hashlib

import pytest

from judgegym.judges.core.seeding import derive, generator


def test_a_known_value() -> None:
    expected = int.from_bytes(hashlib.sha256(b"7\x1frow-1\x1forder").digest()[:8], "big")
    assert derive(7, "row-1", "order") == expected


def test_every_part_matters_and_so_does_where_one_ends() -> None:
    shapes = [(0, "row", "order"), (1, "row", "order"), (0, "rows", "order"), (0, "row", "sorder"), (0, "ro", "worder")]
    numbers = [derive(*shape) for shape in shapes]
    assert len(set(numbers)) == len(shapes)
    assert all(0 <= number < 2**64 for number in numbers)


@pytest.mark.parametrize("uid", ["", "ключ", "\ud800", "\x1f"])
def test_any_row_id(uid: str) -> None:
    assert derive(0, uid, "order") == derive(0, uid, "order") != derive(0, uid, "vote")


def test_generators_are_apart_from_each_other_and_from_the_order_of_use() -> None:
    first = [generator(0, "a", "x").random(), generator(0, "b", "x").random()]
    second = [generator(0, "b", "x").random(), generator(0, "a", "x").random()]
    assert first == second[::-1]
    assert first[0] != first[1]
