"""Brings the scores of several chunks onto one scale, by the answer that all of them share.

Guarantees: two answers of one chunk never change their order, nor do equal ones part; the scores are from 0 to 1; of
a single chunk they are what the judge gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def one_scale(chunks: Sequence[Mapping[str, float]], link: str | None) -> dict[str, float]:
    """The scores of all texts.

    A chunk is shifted so that the shared text has the mean of its scores. If scores are then below 0 or above 1, all of
    them are moved together linearly, as far as it takes: cutting them off would make equals of unequal answers.

    Args:
        chunks: the scores of each chunk, by text.
        link: the text that every chunk has; needed if there are several.
    """
    if not chunks:
        return {}
    if link is None:
        (only,) = chunks
        return dict(only)
    level = sum(scores[link] for scores in chunks) / len(chunks)
    shifted: dict[str, float] = {}
    for scores in chunks:
        own = scores[link]
        # Without a shift the scores stay as they are, to the last bit.
        shifted.update({text: score if own == level else level + (score - own) for text, score in scores.items()})
    shifted[link] = level
    low, high = min(0.0, *shifted.values()), max(1.0, *shifted.values())
    return {text: (score - low) / (high - low) for text, score in shifted.items()}
