"""The merit of a text by its words: deterministic, linear in the length of the text, and cached by text."""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

LOOKED_AT = 20_000
"""The number of characters of a text that are read; the rest is ignored."""

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_COMMON = """
    a about after all also am an and any are as at be been before but by can could did do does doing done each for
    from get give had has have he her here him his how i if in into is it its just let like ll make may me might more
    most much must my no not now of off on one only or other our out over own please re s same she should so some such
    t than that the their them then there these they this those to too under until up us use ve very was we were what
    when where which while who whom why will with would write you your
"""
_STOPWORDS = frozenset(_COMMON.split())
_QUESTION, _REFERENCE, _LENGTH = 0.5, 0.15, 0.35
_MIDDLE, _STEEPNESS = 0.5, 8.0


@dataclass(frozen=True, slots=True)
class Features:
    """The content words of a text, the number of all its words, and the share of word pairs that do not repeat."""

    content: frozenset[str]
    length: int
    fresh: float


def words(text: str) -> list[str]:
    """The lower-case words of a text's head: runs of letters and digits; one character each in Chinese or Japanese."""
    return _WORD.findall(text[:LOOKED_AT].lower())


def salient_words(text: str) -> tuple[str, ...]:
    """The content words of 3 to 24 characters in a text, without repetitions, in order of appearance."""
    return tuple(dict.fromkeys(word for word in words(text) if 3 <= len(word) <= 24 and word not in _STOPWORDS))


def quality(answer: str, question: str = "", reference: str = "") -> float:
    """The quality of an answer from 0 to 1, by its words.

    The weighted mean of three numbers: the share of the question's words and of the reference's words (if given) that
    occur in the answer, and a saturating function of its length; times the share of word pairs that do not repeat.
    """
    given = _features(answer[:LOOKED_AT])
    parts = [(_LENGTH, given.length / (given.length + 40))]
    for weight, text in ((_QUESTION, question), (_REFERENCE, reference)):
        if content := _features(text[:LOOKED_AT]).content:
            parts.append((weight, len(content & given.content) / len(content)))
    return given.fresh * sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)


def merit(quality: float) -> float:
    """A quality as a merit between 0 and 1, spread so that usual answers cover the whole range."""
    return 1 / (1 + math.exp(-_STEEPNESS * (quality - _MIDDLE)))


@lru_cache(maxsize=2048)
def _features(head: str) -> Features:
    in_order = words(head)
    fresh = len(set(pairwise(in_order))) / (len(in_order) - 1) if len(in_order) > 1 else 1.0
    return Features(frozenset(in_order) - _STOPWORDS, len(in_order), fresh)
