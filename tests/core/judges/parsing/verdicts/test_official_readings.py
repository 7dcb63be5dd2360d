"""The letter and the rating as RewardBench-2 reads them, where that differs from this project's reading."""

import pytest

from judgegym.judges.parsing.labels import choice_letter, choice_letter_official
from judgegym.judges.parsing.scores import rating, rating_official


@pytest.mark.parametrize(
    ("text", "ours", "official"),
    [
        ("[[D]]", "D", "D"),
        ("not [[A]]; final: [[D]]", "D", "A"),
        ("[[D]] [[C]] [[B]]", "B", "B"),
        ("<think>[[A]]</think>[[B]]", "B", "A"),
        ("[[E]]", None, None),
        ("[[a]]", None, None),
        ("[B]", None, None),
    ],
)
def test_the_official_choice_is_the_first_letter_of_the_alphabet(
    text: str, ours: str | None, official: str | None
) -> None:
    assert (choice_letter(text, "ABCD"), choice_letter_official(text)) == (ours, official)


def test_only_the_letters_shown_count() -> None:
    assert choice_letter("[[C]] [[B]]", "AB") == "B"
    assert choice_letter("[[B]] [[C]]", "AB") is None
    assert choice_letter("[[Z]]", "XYZ") == "Z"
    assert choice_letter("[[A]]", "") is None


@pytest.mark.parametrize(
    ("text", "ours", "official"),
    [
        ("Rating: 8", 8, 8),
        ("First I thought 3, then 9\n", 9, 9),
        ("7 / 10", 7, 10),
        ("I give it a 7/10.", 7, None),
        ("**8**", 8, None),
        ("3.5", None, 5),
        ("-5", None, 5),
        ("7 to 8", None, 8),
        ("11/10", None, 10),
        ("1of 10", None, 10),
        ("<think>I lean to 9", None, 9),
        ("100", None, None),
        ("", None, None),
    ],
)
def test_the_official_rating_is_the_number_at_the_very_end(
    text: str, ours: int | None, official: int | None
) -> None:
    assert (rating(text), rating_official(text)) == (ours, official)
