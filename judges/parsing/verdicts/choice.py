"""The letter of the best of several responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from judges.llm.wire import JSON
from judges.parsing.found import Found, verdict_parser
from judges.parsing.last_match import last_of
from judges.parsing.two_forms import verdict_in_either
from judges.parsing.verdict_form import VerdictForm, one_of, text_field

_OFFICIAL_LETTERS = "ABCD"


def choice_form(letters: Sequence[str]) -> VerdictForm:
    """The form of a verdict that is one of these letters."""
    return VerdictForm("choice", {"explanation": text_field("your comparison"), "verdict": one_of(letters)})


@verdict_parser
def choice_letter(own: str, letters: Sequence[str]) -> Found[str] | None:
    """The letter that a judge chose: the last `[[X]]` among the letters it was shown, or that of a `choice_form`.

    Args:
        own: the judge's own text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """

    def of_value(value: JSON) -> str | None:
        return next((letter for letter in letters if value in (letter, f"[[{letter}]]")), None)

    def in_words(words: str) -> Found[str] | None:
        match = _last_choice("".join(letters)).match(words)
        return None if match is None else Found(match[1], (match.start(1) - 2, match.end()))

    return verdict_in_either(own, "verdict", of_value, in_words)


@lru_cache
def _last_choice(letters: str) -> re.Pattern[str]:
    """The last letter in double brackets among some letters."""
    return last_of(rf"\[\[([{re.escape(letters)}])\]\]" if letters else r"(?!)")


def choice_letter_official(text: str) -> str | None:
    """The letter as RewardBench-2's own code reads it: the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)
