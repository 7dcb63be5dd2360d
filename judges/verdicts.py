"""Every parser of a judge's text.

Rules that all of them keep: a parser returns a value or `None`; it never guesses, never clamps and never raises; it
reads only the judge's own text after its thinking; the last verdict wins; what it returns stands in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, cast, get_args

from judges.thinking import after_thinking

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = re.compile(r"\[\[([AB<>=]+)\]\]")
_SINGLE_BRACKETS = re.compile(r"\[([AB<>=]+)\]")


def arena_label(text: str) -> ArenaLabel | None:
    """The Arena-Hard label that a judge ended with.

    All matches of `[[…]]` over the characters A B < > =, in any case; the last one decides; only if there is none,
    those in single brackets. Mirrored labels (`B<A`) are read as what they mean (`A>B`). A last match that is no
    label, and words such as "tie", are no verdict.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    own = after_thinking(text).upper()
    matches = _DOUBLE_BRACKETS.findall(own) or _SINGLE_BRACKETS.findall(own)
    if not matches:
        return None
    last = matches[-1]
    if last in ARENA_LABELS:
        return cast(ArenaLabel, last)
    return _MIRRORED.get(last)


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
    chosen = [letter for letter in _CHOICE.findall(after_thinking(text)) if letter in letters]
    return chosen[-1] if chosen else None


def choice_letter_official(text: str) -> str | None:
    """The letter as RewardBench-2's own code reads it: the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)


# A number at the very end, alone or as "7/10" or "7 out of 10", perhaps in markdown, brackets or with a final stop.
# What stands before it must not make it part of another number, of a sign, of a range or of a scale.
_SLASHES = r"/\u2044\u2215\uff0f"
_DASHES = r"\-\u2010-\u2015\u2212"
_RATING = re.compile(
    rf"(?:^|[^\w.,+{_SLASHES}{_DASHES}])"
    rf"[*_`(\[]{{0,4}}([0-9]{{1,2}})[*_`)\]]{{0,3}}(?: ?[{_SLASHES}] ?10| out of 10)?[*_`)\]]{{0,4}}\.?[*_`]{{0,3}}\Z"
)
_NOT_ALONE = re.compile(rf"(?:[0-9] ?[{_DASHES}]|[0-9] (?:to|or|and)|[{_SLASHES}]|\b(?:of|scale))[ (\[*_`]*\Z")
_OFFICIAL_RATING = re.compile(r"\b([1-9]|10)\b\s*\Z")
_LOOKED_AT = 1000  # characters at the end in which a rating and what stands before it must stand


def rating(text: str) -> int | None:
    """The rating from 1 to 10 that a judge ended with.

    "7/10" and "7 out of 10" are 7, "**8**" and "8." are 8; "3.5", "11", "0", "-5", "7-8", "7 or 8" and "8.5 / 10" are
    no rating.
    """
    ending = " ".join(after_thinking(text)[-_LOOKED_AT:].split())
    found = _RATING.search(ending)
    if found is None or _NOT_ALONE.search(ending[: found.start(1)]):
        return None
    value = int(found.group(1))
    return value if 1 <= value <= 10 else None


def rating_official(text: str) -> int | None:
    """The rating as RewardBench-2's own code reads it; `None` where that says −1.

    For parity with published numbers only: "7/10" is 10 and "-5" is 5.

    Source:
        allenai/reward-bench, its ratings of the Ties subset.
    """
    found = _OFFICIAL_RATING.search(text.strip())
    return int(found.group(1)) if found else None
