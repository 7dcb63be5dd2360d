"""The letter of the best of several responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from judges.parsing.last_match import last_of
from judges.parsing.thinking import last_verdict

_OFFICIAL_LETTERS = "ABCD"


def choice_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter that a judge chose: the last `[[X]]` among the letters it was shown.

    Args:
        text: the judge's text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """
    choice = _last_choice("".join(letters))

    def last_letter(own: str) -> str | None:
        match = choice.match(own)
        return None if match is None else match[1]

    return last_verdict(text, last_letter)


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
