"""Arena-Hard's label of one game."""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

from judges.parsing.found import Found, verdict_parser
from judges.parsing.last_match import last_of

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = last_of(r"\[\[([AB<>=]+)\]\]", re.IGNORECASE | re.ASCII)
_SINGLE_BRACKETS = last_of(r"\[([AB<>=]+)\]", re.IGNORECASE | re.ASCII)


@verdict_parser
def arena_label(own: str) -> Found[ArenaLabel] | None:
    """The Arena-Hard label that a judge ended with.

    All matches of `[[…]]` over the characters A B < > =, in any case; the last one decides; only if there is none,
    those in single brackets. Mirrored labels (`B<A`) are read as what they mean (`A>B`). A last match that is no
    label, and words such as "tie", are no verdict.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    double = _DOUBLE_BRACKETS.match(own)
    match = double or _SINGLE_BRACKETS.match(own)
    if match is None:
        return None
    last = match[1].upper()
    label = cast(ArenaLabel, last) if last in ARENA_LABELS else _MIRRORED.get(last)
    return None if label is None else Found(label, (match.start(1) - (1 if double is None else 2), match.end()))
