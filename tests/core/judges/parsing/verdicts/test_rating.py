"""The rating from 1 to 10 that a judge ended with, as this project and as RewardBench-2 reads it."""

import pytest

from judgegym.judges.parsing.scores import rating, rating_official

RATINGS = [
    # text, our reading, the official one
    ("8", 8, 8),
    ("1", 1, 1),
    ("10", 10, 10),
    ("It is helpful and right.\n\n9\n", 9, 9),
    ("Rating: 8", 8, 8),
    ("Rating:8", 8, 8),
    ("7/10", 7, 10),
    ("7 / 10", 7, 10),
    ("7 out of 10", 7, 10),
    ("10/10", 10, 10),
    ("10 out of 10", 10, 10),
    ("I give it a 7/10.", 7, None),
    ("**8**", 8, None),
    ("**8/10**", 8, None),
    ("**Rating: 8**", 8, None),
    ("**Rating:** 8", 8, 8),
    ("`8`", 8, None),
    ("[[8]]", 8, None),
    ("(8)", 8, None),
    ("8.", 8, None),
    ("**8**.", 8, None),
    ("- 5", 5, 5),
    ("Three reasons:\n1. a\n2. b\n\n6", 6, 6),
    ("First I thought 3, then 9", 9, 9),
    ("<think>3</think>9", 9, 9),
    ("9 it was</think>\n4", 4, 4),
    ("3.5", None, 5),
    ("3,5", None, 5),
    ("8.0", None, None),
    ("11", None, None),
    ("11/10", None, 10),
    ("0", None, None),
    ("0/10", None, 10),
    ("100", None, None),
    ("8/100", None, None),
    ("-5", None, 5),
    ("−5", None, 5),
    ("7-8", None, 8),
    ("7–8", None, 8),
    ("7 - 8", None, 8),
    ("7 to 8", None, 8),
    ("on a scale from 1 to 10", None, 10),
    ("1of 10", None, 10),
    ("05", None, None),
    ("1e5", None, None),
    ("v5", None, None),
    ("7 points", None, None),
    ("seven", None, None),
    ("8!", None, None),
    ("", None, None),
    (" \n", None, None),
    ("\ud800", None, None),
    ("<think>9</think>", None, None),
    ("<think>I lean to 9", None, 9),
]


@pytest.mark.parametrize(("text", "ours", "official"), RATINGS)
def test_rating_is_read_as_stated_and_as_rewardbench_reads_it(
    text: str, ours: int | None, official: int | None
) -> None:
    assert rating(text) == ours
    assert rating_official(text) == official


@pytest.mark.parametrize(
    "wrapped", ["{}", "{}.", "**{}**", "{}/10", "{} / 10", "**{}/10**", "{} out of 10", "So: {}\n"]
)
def test_each_rating_is_read_in_any_markup(wrapped: str) -> None:
    texts = [f"It is helpful.\n\n{wrapped.replace('{}', str(value))}" for value in range(1, 11)]
    assert [rating(text) for text in texts] == [*range(1, 11)]
