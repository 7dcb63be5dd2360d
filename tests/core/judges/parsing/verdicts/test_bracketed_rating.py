"""A rating in double brackets: the last one counts, if nothing after it could be another."""

from __future__ import annotations

import pytest

from judgegym.judges.parsing.scores import bracketed_rating


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is correct.\n\nRating: [[5]]", 5.0),
        ("**Rating: [[10]]**", 10.0),
        ("[[7.5]]", 7.5),
        ("Rating: [[5]] out of 10.", 5.0),
        ("The user asks for [[10]], but it deserves less.\n\nRating: [[3]]", 3.0),
        ("[[5]]. My rating is 5.", 5.0),
        ('{"explanation": "Short.", "rating": 7}', 7.0),
        ("<think>[[9]]</think>\n[[2]]", 2.0),
        ("[[11]]", None),
        ("[[0]]", None),
        ("[[0.5]]", None),
        ("[[10.5]]", None),
        ("[[7/10]]", None),
        ("[[five]]", None),
        ("Rating: [5]", None),
        ("Rating: 5", None),
        ("[[ 5 ]]", None),
        ("[[5]]\n\nOn reflection, Score: 6", None),
        ("[[5]], or rather [[unsure]]", None),
        ("[[5]] or [6]", None),
        ("", None),
    ],
)
def test_rating(text: str, expected: float | None) -> None:
    assert bracketed_rating(text) == expected
    found = bracketed_rating.find(text)
    assert (found is None) is (expected is None)
