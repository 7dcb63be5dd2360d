"""Parse verdicts that are words: a game's label, an aspect's yes or no, a choice's letter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from judgegym.judges.parsing.candidates import (
    BETWEEN,
    DOUBLE_BRACKETED,
    NUMBERS,
    NamedValues,
    VerdictCandidate,
    VerdictKind,
    fold_characters,
    last_candidate,
)
from judgegym.judges.parsing.json_objects import decode_object
from judgegym.judges.parsing.verdict_parser import (
    ParsedVerdict,
    VerdictForm,
    choice_field,
    integer,
    text_field,
    verdict_parser,
)
from judgegym.llm.wire import JSON, scrub

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {
    "B<<A": "A>>B",
    "B<A": "A>B",
    "B=A": "A=B",
    "A<B": "B>A",
    "A<<B": "B>>A",
}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = re.compile(r"\[\[([AB<>=]+)\]\]", re.IGNORECASE | re.ASCII)
_SINGLE_BRACKETS = re.compile(r"\[([AB<>=]+)\]", re.IGNORECASE | re.ASCII)
_LABEL = r"[AB]\s{0,2}(?:\\?[<>=]|&[lg]t;){1,6}\s{0,2}[AB]"
_TIE = BETWEEN.join("tie")
_LABELS = re.compile(
    rf"{DOUBLE_BRACKETED}|\\?\[{BETWEEN}(?:(?:[AB<>=\s\\*_`]|&[lg]t;){{1,20}}|{_TIE}"
    rf"|draw){BETWEEN}\]|"
    rf"(?<![\w<>=&;]){_LABEL}(?![\w<>=&])|(?<![\w<>=&;])<{{1,2}}\s?{_LABEL}\s?>{{1,2}}(?![\w<>=&])",
    re.IGNORECASE,
)
_NAMED = NamedValues(
    "verdict|decision|judge?ment",
    r"(?:tie|draw|equal|(?:assistant\s|answer\s|response\s)?(?-i:[AB]))\b",
)
_ALONE = re.compile(r"(?:\[\[)?([AB<>=]+)(?:\]\])?", re.IGNORECASE | re.ASCII)


def arena_form(labels: Sequence[ArenaLabel]) -> VerdictForm:
    """Return the form of a verdict that is one of these labels."""
    return VerdictForm(
        "arena_verdict",
        {"explanation": text_field("your evaluation"), "verdict": choice_field(labels)},
    )


@verdict_parser
def arena_label(own_text: str) -> ParsedVerdict[ArenaLabel] | None:
    """Return the Arena-Hard label that a judge ended with.

    `[[…]]` over the characters A B < > =, in any case; single brackets count only if there are no
    double ones. Mirrored labels (`B<A`) get their meaning (`A>B`). The last candidate counts
    (`judgegym.judges.parsing.candidates`); one that is no label, such as `[[tie]]` or `B>A` without
    brackets, is no verdict. An object of `arena_form` at the end is read, too.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    return last_candidate(own_text, _KIND)


def _parse_value(value: JSON) -> ArenaLabel | None:
    alone = _ALONE.fullmatch(value.strip()) if isinstance(value, str) else None
    if alone is None:
        return None
    return _parse_label(alone[1])


def _find_in_words(words: str) -> Iterator[VerdictCandidate[ArenaLabel]]:
    plain = fold_characters(words)
    exact = _DOUBLE_BRACKETS if _DOUBLE_BRACKETS.search(words) else _SINGLE_BRACKETS
    for match in _LABELS.finditer(plain):
        taken = exact.search(words, *match.span())
        if taken is not None:
            label = _parse_label(taken[1])
            yield VerdictCandidate(
                taken.span(), label, is_exact=label is not None, is_statement=label is not None
            )
            continue
        written = (
            re.sub(r"[\[\]\\\s*_`]", "", match[0])
            .lower()
            .replace("&gt;", ">")
            .replace("&lt;", "<")
            .strip("<>")
        )
        label = "A=B" if written in ("tie", "draw") else _parse_label(written)
        yield VerdictCandidate(
            match.span(), label, is_statement=label is not None and "[" in match[0]
        )
    named: Iterator[VerdictCandidate[ArenaLabel]] = _NAMED.find_in_words(plain, _parse_tie)
    yield from named


def _parse_tie(value: str) -> ArenaLabel | None:
    if value.lower() in ("tie", "draw", "equal"):
        return "A=B"
    return None


def _parse_label(written: str) -> ArenaLabel | None:
    upper = written.upper()
    if upper in ARENA_LABELS:
        return upper
    return _MIRRORED.get(upper)


_KIND = VerdictKind(
    "verdict",
    lambda fields: _parse_value(fields["verdict"]),
    _find_in_words,
    has_text_form=True,
    options=ARENA_LABELS,
)


_YES_NO = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}

ASPECT_FORM = VerdictForm(
    "aspect_verdict", {"reason": text_field("one or two sentences"), "verdict": integer(0, 1)}
)

_ASPECT_NAMED = NamedValues(
    r"verdict|judge?ment|decision|score|rating|final\sanswer",
    rf"{NUMBERS}|(?:yes|no|true|false|pass(?:ed)?|fail(?:ed)?)\b",
    "verdict",
)


@verdict_parser
def binary_verdict(own_text: str) -> ParsedVerdict[bool] | None:
    """Return an aspect's verdict from a JSON object `{"reason", "verdict"}`.

    The last candidate of the text counts.

    1/0, "1"/"0", true/false and "yes"/"no" in any case are verdicts; 0.7, 2, −1, null and all other
    values are not verdicts.

    Returns:
        `True` for yes; `None` also if the object may be a quotation
        (`judgegym.judges.parsing.candidates`).
    """
    return last_candidate(own_text, _ASPECT_KIND)


def parse_yes_no(value: JSON) -> bool | None:
    """Parse a yes/no verdict given as a JSON value.

    It reads 1/0, true/false, "1"/"0", "yes"/"no" and "true"/"false" in any case.
    """
    if isinstance(value, str):
        return _YES_NO.get(value.strip().lower())
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    return None


def yes_no_label(value: JSON) -> str | None:
    """Return the same as a label, `yes` or `no`."""
    verdict = parse_yes_no(value)
    if verdict is None:
        return None
    return "yes" if verdict else "no"


def verdict_reason(text: str, parsed: ParsedVerdict[bool] | None = None) -> str | None:
    """Return the reason of the object that `binary_verdict` reads, or `None`.

    `parsed` is the verdict, if it was read already.
    """
    parsed = parsed or binary_verdict.find(text)
    fields = None
    if parsed is not None and parsed.at is not None:
        fields = decode_object(text[slice(*parsed.at)])
    reason = None if fields is None else fields.get("reason")
    if not isinstance(reason, str):
        return None
    return scrub(reason)


_ASPECT_KIND: VerdictKind[bool] = VerdictKind(
    "verdict",
    lambda fields: parse_yes_no(fields["verdict"]),
    lambda words: _ASPECT_NAMED.find_with_lists(words, parse_yes_no),
)


_OFFICIAL_LETTERS = "ABCD"
_LETTERS = re.compile(
    rf"{DOUBLE_BRACKETED}|\\?\[{BETWEEN}(?:[A-Z]|{_TIE}|none|both){BETWEEN}\]"
    r"|(?<![\w*])\*\*\s?[A-Z]\s?\*\*(?![\w*])"
    # Brackets that nothing closes; and the name of an answer as the last line, since elsewhere it
    # may be a heading.
    r"|\\?\[\s?(?:\\?\[\s?)?[A-Z][^\w\n]{0,6}(?m:$)"
    r"|(?m:^)[^\w\n]{0,6}(?:answer|response|assistant"
    r"|option)\s[^\w\n]{0,4}(?-i:(?P<last>[A-Z]))[^\w]{0,6}\Z",
    re.IGNORECASE,
)
_CHOICE_NAMED = NamedValues(
    r"verdict|choice|decision|judge?ment|winner|(?:final|best)\s(?:answer|response|one)|best"
    r"|answer(?=\W*:)",
    r"(?:(?-i:[A-HJ-Z])|tie|none|both)\b(?!\s\w)",
)


def choice_form(letters: Sequence[str]) -> VerdictForm:
    """Return the form of a verdict that is one of these letters."""
    return VerdictForm(
        "choice", {"explanation": text_field("your comparison"), "verdict": choice_field(letters)}
    )


@verdict_parser
def choice_letter(own_text: str, letters: Sequence[str]) -> ParsedVerdict[str] | None:
    """Return the letter that a judge chose: the last `[[X]]` of a shown letter.

    A verdict of a `choice_form` is read, too.

    The last candidate counts (`judgegym.judges.parsing.candidates`): with `[a]`, `[[tie]]` or "my
    verdict is B" after a verdict there is none.

    Args:
        own_text: the judge's own text.
        letters: the letters shown, such as `"ABCD"`.

    Returns:
        One of `letters`, or `None`.
    """

    def parse_value(value: JSON) -> str | None:
        return next((letter for letter in letters if value in (letter, f"[[{letter}]]")), None)

    def find_in_words(words: str) -> Iterator[VerdictCandidate[str]]:
        plain = fold_characters(words)
        for match in _LETTERS.finditer(plain):
            taken = next(
                (letter for letter in letters if f"[[{letter}]]" in words[slice(*match.span())]),
                None,
            )
            if taken is None:
                written = match["last"] or re.sub(r"[\[\]\\\s*_`]", "", match[0]).upper()
                value = written if written in letters else None
                yield VerdictCandidate(match.span(), value, is_statement=value is not None)
            else:
                start = words.index("[[", match.start())
                yield VerdictCandidate(
                    (start, start + len(f"[[{taken}]]")), taken, is_exact=True, is_statement=True
                )
        yield from _CHOICE_NAMED.find_in_words(
            plain, lambda value: value if value in letters else None
        )

    kind = VerdictKind(
        "verdict",
        lambda fields: parse_value(fields["verdict"]),
        find_in_words,
        has_text_form=True,
        options=letters,
    )
    return last_candidate(own_text, kind)


def choice_letter_official(text: str) -> str | None:
    """Return the letter as RewardBench-2's code reads it.

    It is the first of A, B, C, D, in that order, that occurs as `[[X]]`.

    For parity with published numbers only: "not [[A]]; final: [[D]]" is A.

    Source:
        allenai/reward-bench, its generative scoring of RewardBench-2.
    """
    return next((letter for letter in _OFFICIAL_LETTERS if f"[[{letter}]]" in text), None)
