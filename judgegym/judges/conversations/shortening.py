"""Long conversations, shortened for a judge (`judge_conversation_limit`).

The middle of texts is left out until prompt and response together fit the limit, in this order:
results of tools, the longest first; arguments of tool calls; earlier turns.

Guarantees: the last turn, which is the answer, stays whole. Each cut is marked with its length, and
a note before the prompt says how much of what is left out, so that a judge never takes a part for
the whole. No text can forge either. Equal texts are shortened equally. What may not be cut stays,
even beyond the limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from judgegym.judges.conversations.turns import break_marks, split_turns

_KINDS = ("tool results", "arguments of tool calls", "earlier turns")
_KEPT_CHARACTERS = 200
"""Characters that stay of a text that is cut: half of them at its beginning, half at its end."""
_ROOM = 400
"""Characters for the note."""
FEWEST_CHARACTERS = 1_000
_CALL = "[tool call: "
_CALL_BEGIN = re.escape(_CALL)
_MARK = re.compile(rf"(^{_CALL_BEGIN}[^\n(]*\(|\)\]$|\[image[^\n\]]*\])", re.MULTILINE)
"""What is not cut: what stands around the arguments of a call, and the mark of an image."""


@dataclass
class _Piece:
    """Piece of a text: its kind, and how many characters are left out.

    `kind` is an index of `_KINDS`; a piece with `None` is not cut.
    """

    text: str
    kind: int | None = None
    left_out: int = 0

    @property
    def shown(self) -> str:
        if not self.left_out:
            return self.text
        begin = (len(self.text) - self.left_out + 1) // 2
        mark = _cut_mark(self.left_out)
        return f"{self.text[:begin]}{mark}{self.text[begin + self.left_out :]}"


def shorten(prompt: str, responses: Sequence[str], limit: int) -> tuple[str, tuple[str, ...], int]:
    """Shorten a prompt, and each response to it, to `limit` characters of both.

    Returns:
        The prompt, the responses, and the number of characters left out.
    """
    if len(prompt) + max(map(len, responses), default=0) <= limit:
        return prompt, tuple(responses), 0
    prompt_pieces = _split_pieces(break_marks(prompt, only_cuts=True), is_answer=False)
    answers = [
        _split_pieces(break_marks(response, only_cuts=True), is_answer=True)
        for response in responses
    ]
    for answer in sorted(answers, key=lambda pieces: -sum(len(piece.text) for piece in pieces)):
        _cut([*prompt_pieces, *answer], limit - _ROOM)
    all_pieces = chain.from_iterable((prompt_pieces, *answers))
    cut = [piece for piece in all_pieces if piece.left_out]
    counts = [
        [piece.left_out for piece in cut if piece.kind == kind] for kind in range(len(_KINDS))
    ]
    parts = []
    for lengths, kind in zip(counts, _KINDS, strict=True):
        if lengths:
            total, count = sum(lengths), len(lengths)
            parts.append(f"{total:,} characters of {count} {kind}")
    what_is_cut = ", ".join(parts)
    note = f"[shortened: {what_is_cut} are left out, each where it says so; all else is whole]\n\n"
    shown, *texts = (
        "".join(piece.shown for piece in pieces) for pieces in (prompt_pieces, *answers)
    )
    if parts:
        shown = note + shown
    return shown, tuple(texts), sum(map(sum, counts))


def _cut_mark(count: int) -> str:
    return f"[left out: {count:,} characters]"


def _cut(pieces: Sequence[_Piece], limit: int) -> None:
    """Cut pieces until they fit, in the order of their kinds, the longest first."""
    excess = sum(len(piece.shown) for piece in pieces) - limit
    for kind in range(len(_KINDS)):
        for piece in sorted(
            (piece for piece in pieces if piece.kind == kind), key=lambda piece: -len(piece.text)
        ):
            most, mark = len(piece.text) - _KEPT_CHARACTERS, len(_cut_mark(len(piece.text)))
            if excess > 0 and most > max(mark, piece.left_out):
                before = len(piece.shown)
                piece.left_out = min(most, max(mark, piece.left_out + excess + mark))
                excess -= before - len(piece.shown)


def _split_pieces(text: str, *, is_answer: bool) -> list[_Piece]:
    """Split a text into pieces; an answer's last turn is not cut."""
    pieces: list[_Piece] = []
    turns = split_turns(text) or [("", text)]
    for number, (heading, body) in enumerate(turns):
        opening = ""
        if number:
            opening = "\n\n"
        if heading:
            opening += f"{heading}: "
        pieces.append(_Piece(opening))
        kind = None
        if not is_answer or number < len(turns) - 1:
            kind = 0 if heading.startswith("tool") else 2
        parts = _MARK.split(body)
        for index, part in enumerate(parts):
            is_argument = index > 0 and parts[index - 1].startswith(_CALL)
            part_kind = kind
            if index % 2:
                part_kind = None
            elif kind and is_argument:
                part_kind = 1
            pieces.append(_Piece(part, part_kind))
    return pieces
