"""Words of a text and the comparison of two answers by them. Pure, linear in the text, and cached by text."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

LOOKED_AT = 20_000
"""How many characters of a text are looked at: what comes after them changes nothing."""

_NOT_ALPHANUMERIC = str.maketrans({code: " " for code in range(128) if not chr(code).isalnum()})
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")

_COMMON = """
    a about after all also am an and any are as at be been before but by can could did do does doing done each for
    from get give had has have he her here him his how i if in into is it its just let like ll make may me might more
    most much must my no not now of off on one only or other our out over own please re s same she should so some such
    t than that the their them then there these they this those to too under until up us use ve very was we were what
    when where which while who whom why will with would write you your
"""

STOPWORDS = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Features:
    """What a comparison needs of one text.

    `content` is the set of its words that say something; `length` counts all words; `fresh` is the share of
    neighbouring word pairs that are new, from near 0 (one phrase over and over) to 1 (no pair twice).
    """

    content: frozenset[str]
    length: int
    fresh: float


def words(text: str) -> list[str]:
    """The lower-case words of a text in order: runs of letters and digits; one character each in Chinese or Japanese.

    Only the first `LOOKED_AT` characters are read.
    """
    head = text[:LOOKED_AT]
    if head.isascii():
        return head.lower().translate(_NOT_ALPHANUMERIC).split()
    return _WORD.findall(head.lower())


def features(text: str) -> Features:
    """The features of a text; a text seen before costs one look-up."""
    return _features(text[:LOOKED_AT])


@lru_cache(maxsize=2048)
def _features(head: str) -> Features:
    found = words(head)
    fresh = len(set(pairwise(found))) / (len(found) - 1) if len(found) > 1 else 1.0
    return Features(content=frozenset(found) - STOPWORDS, length=len(found), fresh=fresh)


def salient_words(text: str) -> tuple[str, ...]:
    """The words a text is about: content words of 3 to 24 characters, in order of appearance, each once."""
    return tuple(dict.fromkeys(word for word in words(text) if 3 <= len(word) <= 24 and word not in STOPWORDS))


def coverage(question: Features, answer: Features) -> float:
    """The share of the question's content words that the answer takes up, from 0 to 1 (0 for an empty question)."""
    return len(question.content & answer.content) / max(len(question.content), 1)


def merit(question: Features, answer: Features, other: Features) -> float:
    """How good an answer is beside another (or a reference), from 0 to 1.

    Coverage of the question, agreement with the other answer and length count for it, the last in a saturating way;
    repeating itself counts against it, by a factor.
    """
    agreement = len(answer.content & other.content) / max(len(other.content), 1)
    length = answer.length / (answer.length + 40)
    return (0.5 * coverage(question, answer) + 0.15 * agreement + 0.35 * length) * answer.fresh


def advantage(question: str, first: str, second: str) -> float:
    """How much better the first answer is than the second, from -1 to 1.

    Antisymmetric, exactly: swapping the two answers changes the sign and nothing else.
    """
    asked, one, two = features(question), features(first), features(second)
    return merit(asked, one, two) - merit(asked, two, one)
