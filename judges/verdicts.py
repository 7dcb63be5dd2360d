"""Every parser of a judge's text.

Rules that all of them keep: a parser returns a value or `None`; it never guesses, never clamps and never raises; it
reads only the judge's own text after its thinking; the last verdict wins; what it returns stands in the text.
"""

from __future__ import annotations

import re
from typing import Literal, cast, get_args

from judges.thinking import after_thinking

ArenaLabel = Literal["A>>B", "A>B", "A=B", "B>A", "B>>A"]
"""The verdict of one game, from strong win of A to strong win of B."""

ARENA_LABELS: tuple[ArenaLabel, ...] = get_args(ArenaLabel)
_MIRRORED: dict[str, ArenaLabel] = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
# Arena-Hard-Auto's two patterns, in the order in which they are tried.
_DOUBLE_BRACKETS = re.compile(r"\[\[([AB<>=]+)\]\]")
_SINGLE_BRACKETS = re.compile(r"\[([AB<>=]+)\]")


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
    own = after_thinking(text).upper()
    matches = _DOUBLE_BRACKETS.findall(own) or _SINGLE_BRACKETS.findall(own)
    if not matches:
        return None
    last = matches[-1]
    if last in ARENA_LABELS:
        return cast(ArenaLabel, last)
    return _MIRRORED.get(last)
