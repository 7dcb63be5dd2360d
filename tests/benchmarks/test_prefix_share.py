"""The layouts that the judges use share more of a group's prompts than the others do."""

from __future__ import annotations

from benchmarks.prefix_share import common, measure


async def test_every_layout_shares_at_least_as_much_as_the_other_one() -> None:
    lines = await measure(group=3, pieces=1)
    assert len(lines) == 9
    for line in lines:
        assert 0 < line.other <= line.ours < 1, line
        assert line.is_met is not False, line


def test_common_beginning_of_two_prompts() -> None:
    assert [common(b"abc", other) for other in (b"abd", b"abcd", b"", b"xbc", b"abc")] == [
        2,
        3,
        0,
        0,
        3,
    ]
