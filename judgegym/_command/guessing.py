"""What a misspelt word may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """The most similar of the words, for the end of a message; empty if none is similar."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f", did you mean {close[0]}?" if close else ""
