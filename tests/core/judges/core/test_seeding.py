import hashlib

from judgegym.judges.core.seeding import derive_seed


def test_a_known_value() -> None:
    expected = int.from_bytes(hashlib.sha256(b"7\x1frow-1\x1forder").digest()[:8], "big")
    assert derive_seed(7, "row-1", "order") == expected


def test_every_part_matters_and_so_does_where_one_ends() -> None:
    shapes = [
        (0, "row", "order"),
        (1, "row", "order"),
        (0, "rows", "order"),
        (0, "row", "sorder"),
        (0, "ro", "worder"),
    ]
    numbers = [derive_seed(*shape) for shape in shapes]
    assert len(set(numbers)) == len(shapes)
    assert all(0 <= number < 2**64 for number in numbers)
