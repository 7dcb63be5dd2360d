"""A whole score as the value of a JSON field."""

from __future__ import annotations

import re

from judgegym.llm.wire import JSON

_IN_WORDS = re.compile(r"(-?[0-9]{1,9})(?:\.0+)? ?(?:%|(?:/|out of) ?([0-9]{1,9}))?")

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_WORDS)}
_OF = re.compile(r"\s?(?:out )?of\s?|\s?/\s?")


def whole_score(value: JSON, scale: tuple[int, int]) -> int | None:
    """A score of a scale; `None` if the value is none.

    85, 85.0, "85", "85/100", "85 out of 100" and (of 0 to 100) "85%" are 85; 85.5, 150, -5, true, null and "n/a" are no
    score of 0 to 100.
    """
    low, high = scale
    if isinstance(value, str):
        match = _IN_WORDS.fullmatch(value.strip())
        is_percent = match is not None and "%" in value
        if match is None or match[2] not in (None, str(high)) or (is_percent and scale != (0, 100)):
            return None
        value = int(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if low <= value <= high else None


def score_in_words(written: str, scale: tuple[int, int]) -> int | None:
    """A score of a scale as a sentence states it: "85", "85/100", "85 of 100", "four"."""
    return whole_score(_OF.sub(" out of ", _NUMBER_WORDS.get(written.lower(), written)), scale)
