from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.parsing.verdicts import choice_letter, choice_letter_official, rating, rating_official

PIECES = st.sampled_from(
    [
        "[[",
        "]]",
        "[[A]]",
        "[[D]]",
        "[[E]]",
        "[A]",
        "<think>",
        "</think>",
        "\n",
        " ",
        "/10",
        "10",
        "7",
        ".",
        "-",
        "**",
        "(",
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=3), max_size=10).map("".join)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("[[A]]", "A"),
        ("[[D]]", "D"),
        ("Assistant C answers best.\n\n[[C]]\n", "C"),
        ("not [[A]]; final: [[D]]", "D"),
        ("[[D]] is good, but [[A]]", "A"),
        ("**[[B]]**.", "B"),
        ("[[[B]]]", "B"),
        ("[[B]] rather than [[E]]", "B"),
        ("[[B]] or [[A>B]]", "B"),
        ("<think>[[A]]</think>[[B]]", "B"),
        ("[[A]] as I thought</think>[[B]]", "B"),
        ("It uses <think> tags, fine. [[C]]", "C"),
        ("One said [[A]], I say [[B]]\n[[C]] [[D]", "C"),
    ],
)
def test_the_last_letter_that_was_shown_is_the_choice(text: str, letter: str) -> None:
    assert choice_letter(text, "ABCD") == letter
    assert choice_letter(text, ["A", "B", "C", "D"]) == letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "[A]",
        "[[A]",
        "[[ A ]]",
        "[[AB]]",
        "[[A>B]]",
        "[[E]]",
        "[[]]",
        "((A))",
        "[[А]]",  # Cyrillic
        "Assistant A is best",
        "<think>[[A]]</think>",
        "<think>[[A]] and no end",
        "\ud800",
    ],
)
def test_no_choice(text: str) -> None:
    assert choice_letter(text, "ABCD") is None


def test_only_the_letters_shown_count() -> None:
    assert choice_letter("[[B]] [[C]]", "AB") == "B"
    assert choice_letter("[[Z]]", ascii_uppercase) == "Z"
    assert choice_letter("[[A]]", "") is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("[[D]]", "D"),
        ("not [[A]]; final: [[D]]", "A"),
        ("[[D]] [[C]] [[B]]", "B"),
        ("[[E]] [[D]]", "D"),
        ("<think>[[A]]</think>[[B]]", "A"),
        ("[[E]]", None),
        ("[[a]]", None),
        ("[B]", None),
        ("", None),
    ],
)
def test_the_official_choice_is_the_first_letter_of_the_alphabet(text: str, letter: str | None) -> None:
    assert choice_letter_official(text) == letter


@given(HOSTILE, st.sampled_from(["AB", "ABCD", ascii_uppercase]))
def test_any_text_gives_none_or_a_letter_that_stands_in_it(text: str, letters: str) -> None:
    letter = choice_letter(text, letters)
    assert letter is None or (letter in letters and f"[[{letter}]]" in text)
    official = choice_letter_official(text)
    assert official is None or (official in "ABCD" and f"[[{official}]]" in text)
    if "think>" not in text.lower():
        assert (official is None) == (choice_letter(text, "ABCD") is None)


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
def test_ratings(text: str, ours: int | None, official: int | None) -> None:
    assert rating(text) == ours
    assert rating_official(text) == official


@pytest.mark.parametrize("value", range(1, 11))
@pytest.mark.parametrize(
    "wrapped", ["{}", "{}.", "**{}**", "{}/10", "{} / 10", "**{}/10**", "{} out of 10", "So: {}\n"]
)
def test_each_rating_however_it_is_dressed(value: int, wrapped: str) -> None:
    assert rating(f"It is helpful.\n\n{wrapped.replace('{}', str(value))}") == value


@given(HOSTILE)
def test_any_text_gives_none_or_a_rating_that_stands_in_it(text: str) -> None:
    for value in (rating(text), rating_official(text)):
        assert value is None or (1 <= value <= 10 and str(value) in text)


@given(st.text(alphabet=st.characters(exclude_categories=["Nd", "Cs"])), st.integers(1, 10))
def test_a_number_alone_on_the_last_line_is_read_after_any_text(text: str, value: int) -> None:
    reply = f"<think>{text}</think>Explained: good.\n\n{value}"
    assert rating(reply) == rating_official(reply) == value
