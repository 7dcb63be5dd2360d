"""Arena-Hard's label of one game."""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

from judges.parsing.last_match import last_of
from judges.parsing.thinking import last_verdict

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = last_of(r"\[\[([AB<>=]+)\]\]", re.IGNORECASE | re.ASCII)
_SINGLE_BRACKETS = last_of(r"\[([AB<>=]+)\]", re.IGNORECASE | re.ASCII)


def arena_label(text: str) -> ArenaLabel | None:
    """The Arena-Hard label that a judge ended with.

    All matches of `[[…]]` over the characters A B < > =, in any case; the last one decides; only if there is none,
    those in single brackets. Mirrored labels (`B<A`) are read as what they mean (`A>B`). A last match that is no
    label, and words such as "tie", are no verdict.

    Returns:
        One of `A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`, or `None`.

    Source:
        lmarena/arena-hard-auto, the extraction patterns of its v0.1 configuration.
    """
    return last_verdict(text, _label)


def _label(own: str) -> ArenaLabel | None:
    match = _DOUBLE_BRACKETS.match(own) or _SINGLE_BRACKETS.match(own)
    if match is None:
        return None
    last = match[1].upper()
    return cast(ArenaLabel, last) if last in ARENA_LABELS else _MIRRORED.get(last)
