"""The letter of the best of several responses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from judges.parsing.thinking import last_verdict

_CHOICE = re.compile(r"\[\[([A-Z])\]\]")
_OFFICIAL_LETTERS = "ABCD"


def choice_letter(text: str, letters: Sequence[str]) -> str | None:
    """The letter that a judge chose: the last `[[X]]` among the letters it was shown.

    Args:
        text: the judge's text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """

    def last_letter(own: str) -> str | None:
        chosen = [letter for letter in _CHOICE.findall(own) if letter in letters]
        return chosen[-1] if chosen else None

    return last_verdict(text, last_letter)


def choice_letter_official(text: str) -> str | None:
    """The letter as RewardBench-2's own code reads it: the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)
