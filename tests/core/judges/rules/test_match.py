"""What the rules that compare read in a text, and when they cannot say."""

from __future__ import annotations

from decimal import Decimal

import pytest

from judgegym.judges.rules import match
from judgegym.judges.rules.expressions import regex
from judgegym.judges.rules.finding import Comparison, RuleFinding


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It costs $1,250.50 in all", "1250.50"),
        ("3 cats and .5 dogs", "0.5"),
        ("about 6.02e23", "6.02e23"),
        ("so x=−7.", "-7"),
        ("from 5-3", "3"),
        ("1,2345", "2345"),
        ("half is 3/4", "0.75"),
        (r"half is $\frac{ 3 }{4}$", "0.75"),
        (r"so it is $-\frac{3}{4}$", "-0.75"),
        (r"so it is $- \dfrac{3}{4}$", "-0.75"),
        (r"so it is $-\frac{-3}{4}$", "0.75"),
        (r"that is $x-\frac{3}{4}$", "0.75"),
        (r"\frac{3}{-4}", "-0.75"),
        (r"12{,}000 of them", "12000"),
        (r"1\,000,\!000 of them", "1000000"),
        ("1\u202f000 of them", "1000"),
        ("a loss of -$5", "-5"),
        (r"a loss of $-\$1,000$", "-1000"),
        ("between $3-$5", "5"),
        ("v1.2.3", "0.3"),
        ("50% of them", "50"),
    ],
)
def test_the_last_number_of_a_text_is_read(text: str, value: str) -> None:
    found = match.find_last_number(text)
    assert found is not None and found[0] == Decimal(value)


@pytest.mark.parametrize("text", ["", "none", "1/0", "१२"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert match.find_last_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected", "tolerance", "score"),
    [
        ("It is 18.0.", "#### 18", 0.0, 1.0),
        (r"\boxed{18}, which is not 19", "18", 0.0, 1.0),
        ("It is 1000001", "1000000", 0.0, 0.0),
        ("It is 101", "100", 0.01, 1.0),
        ("It is 101.1", "100", 0.01, 0.0),
        ("It is 0.01", "0", 0.01, 1.0),
        ("It is " + "1" * 40 + "2", "1" * 41, 0.0, 0.0),
        (r"\boxed{-\frac{3}{4}}", "3/4", 0.0, 0.0),
        (r"\boxed{-\frac{3}{4}}", "-0.75", 0.0, 1.0),
        (r"\boxed{3{,}000}", r"\boxed{2{,}000}", 0.0, 0.0),
        (r"\boxed{x}, 18", "18", 0.0, None),
        ("Eighteen.", "18", 0.0, None),
        ("It is 18.", "eighteen", 0.0, None),
    ],
)
def test_numbers_are_equal_within_the_tolerance(
    text: str, expected: str, tolerance: float, score: float | None
) -> None:
    assert match.number(text, expected, tolerance).score == score


@pytest.mark.parametrize(
    ("rule", "text", "expected", "score"),
    [
        (match.exact, " Paris\n", "Paris", 1.0),
        (match.exact, "paris", "Paris", 0.0),
        (match.exact, "Paris", " ", None),
        (regex(), "Paris or Rome", " ", None),
        (match.normalised, "The  Eiffel-Tower!", "eiffel tower", 1.0),
        (match.normalised, "The tower of Eiffel", "eiffel tower", 0.0),
        (match.normalised, "anything", "…!", None),
        (match.contains, "It is, of course, the Eiffel Tower.", "Eiffel tower", 1.0),
        (match.contains, "concatenate", "cat", 0.0),
        (match.contains, "答えは東京です", "東京", 1.0),
    ],
)
def test_texts_are_compared_as_they_are_or_normalised(
    rule: Comparison, text: str, expected: str, score: float | None
) -> None:
    assert rule(text, expected).score == score


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(C).", "C"),
        ("**D**", "D"),
        ("D) 42", "D"),
        ("So the correct answer is (B), not (A).", "B"),
        ("Answer: A\nNo: the answer is **C**.", "C"),
        (r"Hence $\boxed{\text{E}}$ and not A", "E"),
        ("Some reasoning.\n\nB", "B"),
        ("The answer is A because it is odd.", "A"),
        ("Option A is correct.", "A"),
        ("Option B is the correct one.", "B"),
        ("The answer is B. Option C is wrong, and choice (D) does not fit.", "B"),
        ("I choose option B, because option A is wrong.", "B"),
        ("The answer is B and C is wrong.", "B"),
        ("The answer is B, I think.", "B"),
        ("The answer is B, a prime number.", "B"),
        ("The answer is B or a near thing.", "B"),
        ("Answer: C\n\nNo, wait.\n\n**D**", "D"),
        ("The answer is B.\nC) is wrong", "B"),
        ("Option B is wrong.", None),
        ("The answer is A or B.", None),
        ("Answer: (B) and (C)", None),
        ("Answer: B, C", None),
        ("My answer: I think so.", None),
        ("A good question.", None),
        ("the answer is a number", None),
        ("", None),
    ],
)
def test_a_choice_is_boxed_or_said_or_alone(text: str, letter: str | None) -> None:
    assert match.find_choice(text) == letter


def test_choices_are_compared_and_a_missing_letter_is_no_wrong_one() -> None:
    found = [
        match.multiple_choice(text, "(B)")
        for text in ("The answer is B.", "The answer is C.", "I do not know.")
    ]
    assert [(each.score, each.actual) for each in found] == [(1.0, "B"), (0.0, "C"), (None, None)]
    assert match.multiple_choice("B", "banana").is_unusable


def test_a_finding_holds_no_long_text_and_no_half_character() -> None:
    finding = RuleFinding.from_outcome(holds=True, actual="x" * 1000, expected="\ud800")
    assert (
        finding.actual is not None and len(finding.actual) == 200 and finding.actual.endswith("…")
    )
    assert finding.expected == "?"
