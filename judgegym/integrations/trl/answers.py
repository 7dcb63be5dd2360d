"""The answer in a completion of TRL, as an environment reads it.

TRL's completions are text, or messages: after calls of tools several of them, of which the last turn of the assistant
is the answer. Where the chat template of the tokenizer is known to TRL, reasoning has a field of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from judgegym.integrations.scores.requests import Conversation
from judgegym.llm.wire import CUT_OFF, JSON, Choice

_REASONING = ("reasoning_content", "reasoning", "thinking")


def choice_of(completion: Conversation, ids: object = None, ends: Collection[int] | None = None) -> Choice:
    """The answer as a choice; without text if the completion ends before an answer.

    Args:
        completion: text, or the messages of the policy and its tools.
        ids: the tokens of the completion.
        ends: the tokens that end a completion; one without them at its end was cut off.
    """
    is_cut_off = bool(ends) and isinstance(ids, Sequence) and bool(ids) and ids[-1] not in (ends or ())
    finish_reason = CUT_OFF if is_cut_off else None
    if isinstance(completion, str):
        return Choice(completion, finish_reason=finish_reason)
    last: Mapping[str, JSON] = completion[-1] if completion else {}
    if last.get("role") != "assistant":
        return Choice("", finish_reason=finish_reason)
    reasoning = next((text for name in _REASONING if isinstance(text := last.get(name), str)), None)
    return Choice(_text(last.get("content")), reasoning, finish_reason)


def _text(content: JSON) -> str:
    if isinstance(content, list):
        blocks = [block.get("text") for block in content if isinstance(block, Mapping)]
        return "".join(text for text in blocks if isinstance(text, str))
    return content if isinstance(content, str) else ""
