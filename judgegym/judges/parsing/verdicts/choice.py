"""The letter of the best of several responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.near_misses import BETWEEN, DOUBLE_BRACKETED, NamedValues, folded
from judgegym.judges.parsing.verdict_form import VerdictForm, one_of, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.wire import JSON

_OFFICIAL_LETTERS = "ABCD"
_TIE = BETWEEN.join("tie")
_LETTERS = re.compile(
    rf"{DOUBLE_BRACKETED}|\\?\[{BETWEEN}(?:[A-Z]|{_TIE}|none|both){BETWEEN}\]|(?<![\w*])\*\*\s?[A-Z]\s?\*\*(?![\w*])"
    # Brackets that nothing closes; and the name of an answer as the last line, since elsewhere it may be a heading.
    r"|\\?\[\s?(?:\\?\[\s?)?[A-Z][^\w\n]{0,6}(?m:$)"
    r"|(?m:^)[^\w\n]{0,6}(?:answer|response|assistant|option)\s[^\w\n]{0,4}(?-i:(?P<last>[A-Z]))[^\w]{0,6}\Z",
    re.IGNORECASE,
)
_NAMED = NamedValues(
    r"verdict|choice|decision|judge?ment|winner|(?:final|best)\s(?:answer|response|one)|best|answer(?=\W*:)",
    r"(?:(?-i:[A-HJ-Z])|tie|none|both)\b(?!\s\w)",
)


def choice_form(letters: Sequence[str]) -> VerdictForm:
    """The form of a verdict that is one of these letters."""
    return VerdictForm("choice", {"explanation": text_field("your comparison"), "verdict": one_of(letters)})


@verdict_parser
def choice_letter(own: str, letters: Sequence[str]) -> ParsedVerdict[str] | None:
    """The letter that a judge chose: the last `[[X]]`, if it is among the letters shown, or that of a `choice_form`.

    The last candidate decides (`judgegym.judges.parsing.candidates`): `[a]`, `[[tie]]` or "my verdict is B" after it
    leave no verdict.

    Args:
        own: the judge's own text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """

    def of_value(value: JSON) -> str | None:
        return next((letter for letter in letters if value in (letter, f"[[{letter}]]")), None)

    def in_words(words: str) -> Iterator[VerdictCandidate[str]]:
        plain = folded(words)
        for match in _LETTERS.finditer(plain):
            taken = next((letter for letter in letters if f"[[{letter}]]" in words[slice(*match.span())]), None)
            if taken is None:
                written = match["last"] or re.sub(r"[\[\]\\\s*_`]", "", match[0]).upper()
                value = written if written in letters else None
                yield VerdictCandidate(match.span(), value, stated=value is not None)
            else:
                start = words.index("[[", match.start())
                yield VerdictCandidate((start, start + len(f"[[{taken}]]")), taken, taken=True, stated=True)
        yield from _NAMED.in_words(plain, lambda value: value if value in letters else None)

    kind = VerdictKind("verdict", lambda fields: of_value(fields["verdict"]), in_words, in_text_too=True)
    return last_candidate(own, kind)


def choice_letter_official(text: str) -> str | None:
    """The letter as RewardBench-2's own code reads it: the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)
