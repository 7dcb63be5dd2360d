"""Verdicts in words that no parser takes: `Score: 2`, `**Verdict:** no`, `[[ a ]]`, full-width or escaped signs.

They are candidates all the same (`judgegym.judges.parsing.candidates`): a judge's own verdict in such a form must not
leave an earlier one to be read, which may be quoted. What they state is only compared with what has been read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from judgegym.judges.parsing.candidates import VerdictCandidate

T = TypeVar("T")

_ALIKE = {
    **dict.fromkeys("【〔〖〚⟦⟨❲「『", "["),
    **dict.fromkeys("】〕〗〛⟧⟩❳」』", "]"),
    **dict.fromkeys("›≻≫»❯➤→", ">"),
    **dict.fromkeys("‹≺≪«❮←", "<"),
    **dict.fromkeys("≈≡∼", "="),
    **dict.fromkeys("−‐‑‒–—", "-"),
    **dict(zip("АВСЕНІКМОРЅТХаеісорѕхуΑΒΕΗΙΚΜΝΟΡΤΧοιν", "ABCEHIKMOPSTXaeicopsxyABEHIKMNOPTXoiv", strict=True)),
}


class _Folding(dict[int, str]):
    """The plain character that looks like another one, by its code; computed at its first occurrence."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = _ALIKE.get(character) or unicodedata.normalize("NFKC", character)
        if len(plain) != 1 or unicodedata.category(plain)[0] in "CZ":
            plain = " " if unicodedata.category(character)[0] in "CZ" else character
        digit = unicodedata.digit(plain, None)
        self[code] = plain if digit is None or plain.isascii() else str(digit)
        return self[code]


_FOLDING = _Folding({code: chr(code) for code in (*range(32, 127), *b"\n\r\t")})
_UNUSUAL = re.compile(r"[^\n\r\t\x20-\x7e]")


def folded(words: str) -> str:
    """The words with a plain character in place of each that looks like one, so that all keep their places."""
    return words if _UNUSUAL.search(words) is None else words.translate(_FOLDING)


_DECORATED = r"[\"'*_`)\]\s]{0,6}"
_LINK = (
    rf"{_DECORATED}(?::|=>?|-+>|\s[->]\s|\b(?:is|was|are|(?:should|would|must)\sbe)\b)"
    r"[\"'*_`(\[\s:]{0,6}(?:(?:a|an|now|still|therefore)\s)?[*_`(\[]{0,4}"
)
_OWN = r"(?:(?:so|therefore|hence|thus|in|summary|conclusion|and|my|the|this|final|overall|own|revised|total|is)[\W_]+)"
_LINE = r"(?m:^)[*_#>|<`\- \t]{0,8}"
_FIRST_PERSON = (
    r"\bI(?:['’]d|\swould|\swill)?(?:\s(?:therefore|thus|also|still))?"
    r"\s(?:give|rate|assign|award|choose|pick|prefer|select|answer|say|go\swith)\b[^.!?\n]{0,40}?\b"
)
_FILLER = re.compile(rf"[\W_]*{_OWN}*\Z", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?\n]")
_ENDED = re.compile(r"[\"'*_`)\]]*\s*(?:[.!?,;\n]|\Z)")
_LONGEST_BEFORE = 80
BETWEEN = r"[\s\\*_`]{0,4}"
"""What may stand between the signs of a label, and changes nothing: white space, escapes and markdown."""
DOUBLE_BRACKETED = rf"\\?\[{BETWEEN}\[(?:[^\[\]\n]{{1,60}}|[^\[\]]{{1,12}})\](?:{BETWEEN}\])?"
"""Anything short in double brackets, also in escaped ones and over two lines; the second closing one may be missing."""
NUMBER = r"[-+]?\d{1,9}(?:[.,]\d{1,9})?(?:\s?(?:/|out of|of)\s?\d{1,9}|\s?%)?"
"""A number as a value, perhaps with its scale."""
NUMBER_WORD = r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten)\b"
NOTHING = r"(?:none|null|n/?a)\b"
SCORE = r"score|rating|grade|verdict|result(?=\W{0,6}[:=])"  # "the result is 5" may be of a sum
"""The names of a score in words."""


class NamedValues:
    """Values that are said to be a verdict: `Score: 2`, "my verdict is no", "I choose B", or a line of nothing else."""

    def __init__(self, names: str, values: str, field: str | None = None) -> None:
        """Compile.

        Args:
            names: the names, as a pattern.
            values: what is a value, as a pattern without groups.
            field: the name of a field that has any value behind it where it is quoted.
        """
        forms = [
            rf"\b(?P<named>{names})\b{_LINK}(?P<value>{values})",
            rf"{_LINE}{_OWN}{{0,3}}(?:{names})\b(?:\s?\([^()\n]{{0,20}}\))?[\W_]{{1,12}}?(?P<titled>{values})",
            rf"{_LINE}{_OWN}{{0,3}}(?:{names})\b[*_`\t ]{{0,4}}:[*_`\t ]{{0,4}}(?P<any>[^\s*_`]+)",
            rf"{_LINE}final\b[*_`\t ]{{0,4}}[:=][*_`\t ]{{0,4}}(?P<final>{values})(?!\s?[<>=&])",
            rf"{_FIRST_PERSON}(?P<given>{values})(?=[^\w\n]*(?:[.!?,;\n]|\Z))",
            rf"(?m:^)(?:[^\w\n]|_|\\\w{{1,9}}\{{){{0,6}}(?P<alone>{values})[^\w\n]{{0,6}}(?m:$)",
        ]
        if field is not None:
            forms.append(rf"[\"'“‘]{field}[\"'”’]\s*:\s*(?P<quoted>[^\s\"'“”‘’,}}]+|\S)")
        self._pattern = re.compile("|".join(forms), re.IGNORECASE)

    def in_words(self, words: str, meaning: Callable[[str], T | None]) -> Iterator[VerdictCandidate[T]]:
        """The candidates; `meaning` gives what a value states, `None` if it cannot be told."""
        for match in self._pattern.finditer(words):
            form = cast("str", match.lastgroup)
            value = meaning(match[form].strip(".,;*_`"))
            is_stated = form in ("value", "titled", "any", "given") and _is_a_statement(words, match, form)
            yield VerdictCandidate(match.span(form), value, stated=value is not None and is_stated)


def _is_a_statement(words: str, match: re.Match[str], form: str) -> bool:
    """Whether a sentence says nothing else: "My verdict is 0.", but not "Its score: 3 for style"."""
    if _ENDED.match(words, match.end()) is None:
        return False
    before = words[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
    return form != "value" or _FILLER.match(_SENTENCE.split(before)[-1]) is not None


_LIST = re.compile(r"(?m)^[ \t]*\[\s*-?\d[\d.eE+-]{0,12}(?:\s*,\s*-?\d[\d.eE+-]{0,12})*\s*\][ \t]*$")


def number_lists(words: str) -> Iterator[VerdictCandidate[T]]:
    """Lists of numbers on lines of their own, which a judge may have written in place of an object."""
    return (VerdictCandidate(match.span()) for match in _LIST.finditer(words))
