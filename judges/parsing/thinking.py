"""What surrounds the answer in a model's text: thinking in `<think>…</think>`, and template tokens at the end.

A policy's completion is split strictly, a judge's text is read leniently: its own text is what follows its thinking,
without the chat-template tokens that some endpoints and trainers leave at the end.

Guarantees: linear time on any text. `split` strips nothing from the answer but the white space around it; a completion
is either valid, or invalid with a reason that can be counted; tags are matched as written in the specification, in
lower case: `<Think>` is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")

OPEN = "<think>"
CLOSE = "</think>"

# ChatML, Llama 3, Mistral, Gemma, DeepSeek (whose bars are full-width and whose blanks are U+2581), …
TEMPLATE_TOKEN = re.compile(
    r"<\|[a-z_0-9]{1,40}\|>|<｜[A-Za-z▁]{1,40}｜>|</?s>|<(?:bos|eos|pad)>|<(?:start|end)_of_turn>|\[/?INST\]"
)
_LAST_TOKEN = re.compile(rf"(?:{TEMPLATE_TOKEN.pattern})\Z")
_LONGEST_TOKEN = 44

ThinkingFault = Literal[
    "no_open_tag",
    "no_close_tag",
    "several_open_tags",
    "several_close_tags",
    "close_before_open",
    "text_before_open_tag",
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

    Valid is exactly one `<think>` and one `</think>`, in that order, with nothing but white space before, and an answer
    that is not empty.

    Args:
        text: the completion as the policy wrote it.
        opened_by_template: the chat template ends the prompt with `<think>` (as those of Qwen3 and DeepSeek-R1 do), so
            that a lone `</think>` is valid too.

    Returns:
        The parts; never raises.
    """
    opens, closes = text.count(OPEN), text.count(CLOSE)
    fault = _fault(text, opens, closes, opened_by_template)
    if fault is not None:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason=fault)
    head, _, tail = text.partition(CLOSE)
    answer = tail.strip()
    if not answer:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason="empty_answer")
    return Thinking(valid=True, thinking=head.partition(OPEN)[2 if opens else 0].strip(), answer=answer)


def _fault(text: str, opens: int, closes: int, opened_by_template: bool) -> ThinkingFault | None:
    if opens > 1:
        return "several_open_tags"
    if closes > 1:
        return "several_close_tags"
    if opens == 0 and not (opened_by_template and closes):
        return "no_open_tag"
    if closes == 0:
        return "no_close_tag"
    if opens == 0:
        return None
    if text.index(CLOSE) < text.index(OPEN):
        return "close_before_open"
    return None if text.lstrip().startswith(OPEN) else "text_before_open_tag"


def after_thinking(text: str) -> str:
    """The part of a judge's text that may hold a verdict: what follows its thinking.

    Lenient, because a judge's format is not under test: the text after the last `</think>`; nothing if the text begins
    with thinking that never ends; otherwise all of it. Tags match in any case. Template tokens at the very end are
    removed.
    """
    folded = _ascii_lower(text)
    end = folded.rfind(CLOSE)
    if end < 0 and folded.lstrip().startswith(OPEN):
        return ""
    return without_trailing_tokens(text if end < 0 else text[end + len(CLOSE) :])


def last_verdict(text: str, parse: Callable[[str], T | None]) -> T | None:
    """What `parse` finds in a judge's text outside of its thinking.

    A `<think>` after the beginning may start thinking that never ends, or only mention the tag. If there is a verdict
    before it, and another one with the text after it, they are ambiguous: there is no verdict.
    """
    own = after_thinking(text)
    verdict = parse(own)
    opened = _ascii_lower(own).find(OPEN)
    if verdict is None or opened < 0:
        return verdict
    return verdict if parse(without_trailing_tokens(own[:opened])) in (None, verdict) else None


def without_trailing_tokens(text: str) -> str:
    """`text` without the template tokens at its end and the white space around them; as it is if it ends with none.

    Takes linear time: one expression for all tokens would go back at every run of white space.
    """
    end = len(text.rstrip())
    cut = False
    while (token := _LAST_TOKEN.search(text, max(0, end - _LONGEST_TOKEN), end)) is not None:
        cut, end = True, token.start()
        while end > 0 and text[end - 1].isspace():
            end -= 1
    return text[:end] if cut else text


_ASCII_UPPER_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _ascii_lower(text: str) -> str:
    """Lower-case ASCII only, so that no character changes its length and offsets keep their meaning."""
    return text.lower() if text.isascii() else text.translate(_ASCII_UPPER_TO_LOWER)
