"""Long conversations, shortened for a judge (`judge_conversation_limit`).

The middle of what may be cut is left out, in this order, until prompt and response have so many characters: results of
tools, the longest first; arguments of tool calls; earlier turns. Guarantees: the last turn, which is the answer, stays
whole; each cut is marked with its length, and a note before the prompt says how much of what is left out, so that a
judge never takes a part for the whole; no text can forge either; equal texts are shortened equally. What may not be
cut stays, also beyond the limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judgegym.judges.conversations.turns import HEADING, LATER_HEADING, without_marks

_KINDS = ("tool results", "arguments of tool calls", "earlier turns")
_KEPT = 200
"""Characters that stay of a text that is cut: half of them at its beginning, half at its end."""
_ROOM = 400
"""Characters for the note."""
FEWEST_CHARACTERS = 1_000
_WHOLE = re.compile(r"(\[tool call: [^\n(]*\()(.*)(\)\])$|\[image[^\n\]]*\]", re.MULTILINE)
"""A tool call with its arguments on one line, or the mark of an image, which is not cut."""


@dataclass
class _Piece:
    """A piece of a text: its kind as a place in `_KINDS`, `None` for what is not cut, and how much is left out."""

    text: str
    kind: int | None = None
    left_out: int = 0

    @property
    def shown(self) -> str:
        if not self.left_out:
            return self.text
        begin = (len(self.text) - self.left_out + 1) // 2
        return f"{self.text[:begin]}{_mark(self.left_out)}{self.text[begin + self.left_out :]}"


def shorten(prompt: str, responses: Sequence[str], limit: int) -> tuple[str, tuple[str, ...], int]:
    """Shorten a prompt, and each response to it, to `limit` characters of both.

    Returns:
        The prompt, the responses, and how many characters of them are left out.
    """
    if len(prompt) + max(map(len, responses), default=0) <= limit:
        return prompt, tuple(responses), 0
    asked = _pieces(without_marks(prompt, only_cuts=True), is_answer=False)
    answers = [_pieces(without_marks(response, only_cuts=True), is_answer=True) for response in responses]
    for answer in sorted(answers, key=lambda pieces: -sum(len(piece.text) for piece in pieces)):
        _cut([*asked, *answer], limit - _ROOM)
    counts, parts = [0] * len(_KINDS), list[str]()
    for number, kind in enumerate(_KINDS):
        cut = [piece.left_out for pieces in (asked, *answers) for piece in pieces if piece.kind == number]
        counts[number] = sum(cut)
        parts += [f"{sum(cut):,} characters of {sum(map(bool, cut))} {kind}"] if any(cut) else []
    note = (
        f"[shortened: {', '.join(parts)} are left out, each where it says so; all else is whole]\n\n" if parts else ""
    )
    shown, *texts = ("".join(piece.shown for piece in pieces) for pieces in (asked, *answers))
    return note + shown, tuple(texts), sum(counts)


def _mark(count: int) -> str:
    return f"[left out: {count:,} characters]"


def _cut(pieces: Sequence[_Piece], limit: int) -> None:
    """Leave out what is too much of some pieces, in the order of their kinds, the longest first."""
    too_much = sum(len(piece.shown) for piece in pieces) - limit
    for kind in range(len(_KINDS)):
        for piece in sorted((piece for piece in pieces if piece.kind == kind), key=lambda piece: -len(piece.text)):
            most, mark = len(piece.text) - _KEPT, len(_mark(len(piece.text)))
            if too_much > 0 and most > max(mark, piece.left_out):
                before = len(piece.shown)
                piece.left_out = min(most, max(mark, piece.left_out + too_much + mark))
                too_much -= before - len(piece.shown)


def _pieces(text: str, *, is_answer: bool) -> list[_Piece]:
    """A text in pieces; of an answer the last turn is not cut."""
    pieces: list[_Piece] = []
    turns = LATER_HEADING.split(text) if HEADING.match(text) else [text]
    for number, turn in enumerate(turns):
        heading = match[0] if (match := HEADING.match(turn)) and len(turns) > 1 else ""
        pieces.append(_Piece(f"{chr(10) * 2 if number else ''}{heading}"))
        end, body = 0, turn[len(heading) :]
        is_cut = not (is_answer and number == len(turns) - 1)
        kind = None if not is_cut else 0 if heading.startswith("tool") else 2
        for mark in _WHOLE.finditer(body):
            pieces.append(_Piece(body[end : mark.start()], kind))
            calls = [(mark[1], None), (mark[2], kind and 1), (mark[3], None)] if mark[1] else [(mark[0], None)]
            pieces += [_Piece(part, of_kind) for part, of_kind in calls]
            end = mark.end()
        pieces.append(_Piece(body[end:], kind))
    return pieces
