"""Arena-Hard's label of one game."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from judges.llm.wire import JSON
from judges.parsing.found import Found, verdict_parser
from judges.parsing.last_match import last_of
from judges.parsing.two_forms import verdict_in_either
from judges.parsing.verdict_form import VerdictForm, one_of, text_field

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = last_of(r"\[\[([AB<>=]+)\]\]", re.IGNORECASE | re.ASCII)
_SINGLE_BRACKETS = last_of(r"\[([AB<>=]+)\]", re.IGNORECASE | re.ASCII)
_ALONE = re.compile(r"(?:\[\[)?([AB<>=]+)(?:\]\])?", re.IGNORECASE | re.ASCII)


def arena_form(labels: Sequence[ArenaLabel]) -> VerdictForm:
    """The form of a verdict that is one of these labels."""
    return VerdictForm("arena_verdict", {"explanation": text_field("your evaluation"), "verdict": one_of(labels)})


@verdict_parser
def arena_label(own: str) -> Found[ArenaLabel] | None:
    """The Arena-Hard label that a judge ended with.

    All matches of `[[…]]` over the characters A B < > =, in any case; the last one decides; only if there is none,
    those in single brackets. Mirrored labels (`B<A`) are read as what they mean (`A>B`). A last match that is no
    label, and words such as "tie", are no verdict. An object of `arena_form` at the end is read, too
    (`judges.parsing.two_forms`).

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    return verdict_in_either(own, "verdict", _of_value, _in_words)


def _of_value(value: JSON) -> ArenaLabel | None:
    alone = _ALONE.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if alone is None else _label(alone[1])


def _in_words(own: str) -> Found[ArenaLabel] | None:
    double = _DOUBLE_BRACKETS.match(own)
    match = double or _SINGLE_BRACKETS.match(own)
    if match is None:
        return None
    label = _label(match[1])
    return None if label is None else Found(label, (match.start(1) - (1 if double is None else 2), match.end()))


def _label(written: str) -> ArenaLabel | None:
    upper = written.upper()
    return upper if upper in ARENA_LABELS else _MIRRORED.get(upper)
