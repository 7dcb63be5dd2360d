"""What surrounds the answer in a model's text: thinking in `<think>…</think>`, and template tokens at the end.

The rule of valid thinking, for a policy's completion in thinking mode: exactly one `<think>` and one `</think>`, in
that order, and behind them an answer that is not empty. Text before `<think>` is allowed, and is no part of the answer.
Tags are matched in lower case: `<Think>` is text. Where the chat template has opened the thinking, `</think>` alone is
valid, too. A completion that breaks the rule has a reason that can be counted.

A judge's text is read leniently: its own text is what follows its thinking, without the chat-template tokens that some
endpoints and trainers leave at the end. A tag within a JSON object that is all of it is quoted, and ends no thinking.

Guarantees: linear time on any text. `split` strips nothing from the answer but the white space around it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal

from judgegym.llm.template_tokens import without_trailing_tokens

OPEN = "<think>"
CLOSE = "</think>"

# ASCII alone, so that no other letter is taken for one of these in another case.
_TO_LAST_CLOSE = re.compile(f"(?s:.*){CLOSE}", re.IGNORECASE | re.ASCII)
_CLOSED = re.compile(CLOSE, re.IGNORECASE | re.ASCII)
_TO_OBJECT = re.compile(r"\s*(?:```\w*\s*)?(?=\{)")
_MOST_TRIED = 4
_DECODER = json.JSONDecoder(strict=False)
OPENED = re.compile(OPEN, re.IGNORECASE | re.ASCII)

ThinkingFault = Literal[
    "no_open_tag",
    "no_close_tag",
    "several_open_tags",
    "several_close_tags",
    "close_before_open",
    "empty_answer",
]


@dataclass(frozen=True, slots=True)
class Thinking:
    """A completion, split into thinking and answer.

    Attributes:
        valid: the format is right and the answer is not empty.
        thinking: the text between the tags, stripped; empty if the completion is invalid.
        answer: the text after `</think>`, stripped; the whole text, stripped, if the completion is invalid.
        reason: what is wrong; `None` if valid.
    """

    valid: bool
    thinking: str
    answer: str
    reason: ThinkingFault | None = None


def split(text: str, *, opened_by_template: bool = False) -> Thinking:
    """Split a completion into thinking and answer.

    Args:
        text: the completion as the policy wrote it.
        opened_by_template: the chat template ends the prompt with `<think>` (as those of Qwen3 and DeepSeek-R1 do), so
            that a lone `</think>` is valid too.

    Returns:
        The parts; never raises.
    """
    opens, closes = text.count(OPEN), text.count(CLOSE)
    fault = _fault(text, opens, closes, opened_by_template=opened_by_template)
    if fault is not None:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason=fault)
    head, _, tail = text.partition(CLOSE)
    answer = tail.strip()
    if not answer:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason="empty_answer")
    return Thinking(valid=True, thinking=head.partition(OPEN)[2 if opens else 0].strip(), answer=answer)


def _fault(text: str, opens: int, closes: int, *, opened_by_template: bool) -> ThinkingFault | None:
    if opens > 1:
        return "several_open_tags"
    if closes > 1:
        return "several_close_tags"
    if opens == 0 and not (opened_by_template and closes):
        return "no_open_tag"
    if closes == 0:
        return "no_close_tag"
    return "close_before_open" if opens and text.index(CLOSE) < text.index(OPEN) else None


def after_thinking(text: str) -> str:
    """The part of a judge's text that may hold a verdict: what follows its thinking.

    Lenient, because a judge's format is not under test: the text after the last `</think>`; nothing if the text begins
    with thinking that never ends; otherwise all of it. Tags that an object quotes do not count. Tags match in any case.
    Template tokens at the very end are removed.
    """
    return own_part(text)[1]


@lru_cache(maxsize=16)  # a judge reads several things in one text, one after the other
def own_part(text: str) -> tuple[int, str]:
    """Where the part begins that follows a judge's thinking, and the part itself (`after_thinking`)."""
    thinking = _TO_LAST_CLOSE.match(text)
    if thinking is None and OPENED.match(text.lstrip()):
        return len(text), ""
    start = 0 if thinking is None else _before_an_object(text, thinking.end())
    return start, without_trailing_tokens(text[start:])


def _before_an_object(text: str, last: int) -> int:
    """Where an object begins that is all of the text after some thinking and quotes tags; otherwise `last`."""
    body = without_trailing_tokens(text).rstrip().removesuffix("```").rstrip()
    if not body.endswith("}"):
        return last
    starts = (0, *(close.end() for close in _CLOSED.finditer(text, 0, last)))
    begun = ((start, opening.end()) for start in starts for opening in [_TO_OBJECT.match(text, start)] if opening)
    for start, brace in islice(begun, _MOST_TRIED):
        try:
            _, end = _DECODER.raw_decode(body, brace)
        except (ValueError, RecursionError):
            continue
        if end == len(body):
            return start
    return last
