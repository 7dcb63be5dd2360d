"""Arena-Hard's label of one game."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from judgegym.judges.parsing.candidates import VerdictCandidate, VerdictKind, last_candidate
from judgegym.judges.parsing.near_misses import BETWEEN, DOUBLE_BRACKETED, NamedValues, folded
from judgegym.judges.parsing.verdict_form import VerdictForm, one_of, text_field
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.wire import JSON

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = re.compile(r"\[\[([AB<>=]+)\]\]", re.IGNORECASE | re.ASCII)
_SINGLE_BRACKETS = re.compile(r"\[([AB<>=]+)\]", re.IGNORECASE | re.ASCII)
_LABEL = r"[AB]\s{0,2}(?:\\?[<>=]|&[lg]t;){1,6}\s{0,2}[AB]"
_TIE = BETWEEN.join("tie")
_LABELS = re.compile(
    rf"{DOUBLE_BRACKETED}|\\?\[{BETWEEN}(?:(?:[AB<>=\s\\*_`]|&[lg]t;){{1,20}}|{_TIE}|draw){BETWEEN}\]|"
    rf"(?<![\w<>=&;]){_LABEL}(?![\w<>=&])|(?<![\w<>=&;])<{{1,2}}\s?{_LABEL}\s?>{{1,2}}(?![\w<>=&])",
    re.IGNORECASE,
)
_NAMED = NamedValues(
    "verdict|decision|judge?ment", r"(?:tie|draw|equal|(?:assistant\s|answer\s|response\s)?(?-i:[AB]))\b"
)
_ALONE = re.compile(r"(?:\[\[)?([AB<>=]+)(?:\]\])?", re.IGNORECASE | re.ASCII)


def arena_form(labels: Sequence[ArenaLabel]) -> VerdictForm:
    """The form of a verdict that is one of these labels."""
    return VerdictForm("arena_verdict", {"explanation": text_field("your evaluation"), "verdict": one_of(labels)})


@verdict_parser
def arena_label(own: str) -> ParsedVerdict[ArenaLabel] | None:
    """The Arena-Hard label that a judge ended with.

    `[[…]]` over the characters A B < > =, in any case; in single brackets only if there is none in double ones.
    Mirrored labels (`B<A`) are read as what they mean (`A>B`). The last candidate decides
    (`judgegym.judges.parsing.candidates`); one that is no label, such as `[[tie]]` or `B>A` without brackets, is no
    verdict. An object of `arena_form` at the end is read, too.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    return last_candidate(own, _KIND)


def _of_value(value: JSON) -> ArenaLabel | None:
    alone = _ALONE.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if alone is None else _label(alone[1])


def _in_words(words: str) -> Iterator[VerdictCandidate[ArenaLabel]]:
    plain = folded(words)
    exact = _DOUBLE_BRACKETS if _DOUBLE_BRACKETS.search(words) else _SINGLE_BRACKETS
    for match in _LABELS.finditer(plain):
        taken = exact.search(words, *match.span())
        if taken is not None:
            label = _label(taken[1])
            yield VerdictCandidate(taken.span(), label, taken=label is not None, stated=label is not None)
            continue
        written = re.sub(r"[\[\]\\\s*_`]", "", match[0]).lower().replace("&gt;", ">").replace("&lt;", "<").strip("<>")
        label = "A=B" if written in ("tie", "draw") else _label(written)
        yield VerdictCandidate(match.span(), label, stated=label is not None and "[" in match[0])
    named: Iterator[VerdictCandidate[ArenaLabel]] = _NAMED.in_words(plain, _named)
    yield from named


def _named(value: str) -> ArenaLabel | None:
    return "A=B" if value.lower() in ("tie", "draw", "equal") else None


def _label(written: str) -> ArenaLabel | None:
    upper = written.upper()
    return upper if upper in ARENA_LABELS else _MIRRORED.get(upper)


_KIND = VerdictKind("verdict", lambda fields: _of_value(fields["verdict"]), _in_words, in_text_too=True)
