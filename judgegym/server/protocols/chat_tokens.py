"""Removes chat-template tokens from prompts and responses of trainers that do not skip special tokens."""

from __future__ import annotations

import re

from judgegym.llm.template_tokens import TEMPLATE_TOKEN, without_trailing_tokens

# Role and text of a turn: ChatML (Qwen and others), Llama 3, Gemma.
_TURNS = (
    re.compile(r"<\|im_start\|>(?P<role>\w+)\n(?P<text>.*?)(?:<\|im_end\|>|\Z)", re.DOTALL),
    re.compile(r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n\n(?P<text>.*?)(?:<\|eot_id\|>|\Z)", re.DOTALL),
    re.compile(r"<start_of_turn>(?P<role>\w+)\n(?P<text>.*?)(?:<end_of_turn>|\Z)", re.DOTALL),
)


def plain_prompt(text: str) -> str:
    """The text of the user's turn; of several turns, all with their roles; without turns, the text without tokens."""
    for pattern in _TURNS if "<" in text else ():  # all of them begin with this sign
        turns = [(match["role"], match["text"].strip()) for match in pattern.finditer(text)]
        filled = [(role, words) for role, words in turns if words]
        if filled:
            asked = [words for role, words in filled if role == "user"]
            if len(asked) == 1 and all(role in ("user", "system") for role, _ in filled):
                return asked[0]
            return "\n\n".join(f"{role}: {words}" for role, words in filled)
    return TEMPLATE_TOKEN.sub("", text).strip()


def plain_response(text: str) -> str:
    """A response without the tokens at its end; tokens within it may be part of the answer, and stay."""
    return without_trailing_tokens(text).strip()
