"""The letter that a judge chose, as this project and as RewardBench-2 reads it."""

from string import ascii_uppercase

import pytest

from judgegym.judges.parsing.labels import choice_letter, choice_letter_official


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
        ("[[E]] or rather [[B]]", "B"),
        ("<think>[[A]]</think>[[B]]", "B"),
        ("[[A]] as I thought</think>[[B]]", "B"),
        ("It uses <think> tags, fine. [[C]]", "C"),
        ("One said [[A]], I say [[B]]\n[[D] [[C]]", "C"),
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
        "[[B]] rather than [[E]]",
        "[[B]] or [[A>B]]",
        "[[C]] [[D]",
        "[[А]]",  # Cyrillic
        "Assistant A is best",
        "<think>[[A]]</think>",
        "<think>[[A]] and no end",
        "\ud800",
    ],
)
def test_text_without_a_shown_letter_has_no_choice(text: str) -> None:
    assert choice_letter(text, "ABCD") is None


def test_only_the_letters_shown_count() -> None:
    assert choice_letter("[[C]] [[B]]", "AB") == "B"
    assert choice_letter("[[B]] [[C]]", "AB") is None
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
