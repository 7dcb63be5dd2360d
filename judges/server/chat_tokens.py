"""A chat template's tokens taken out of a text: what trainers send that keep special tokens."""

from __future__ import annotations

import re

# ChatML (Qwen, …), Llama 3 and Gemma: each turn's role and text.
_TURNS = (
    re.compile(r"<\|im_start\|>(?P<role>\w+)\n(?P<text>.*?)(?:<\|im_end\|>|\Z)", re.DOTALL),
    re.compile(r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n\n(?P<text>.*?)(?:<\|eot_id\|>|\Z)", re.DOTALL),
    re.compile(r"<start_of_turn>(?P<role>\w+)\n(?P<text>.*?)(?:<end_of_turn>|\Z)", re.DOTALL),
)
_SPECIAL = re.compile(r"<\|[a-z_0-9]{1,40}\|>|</?s>|<(?:bos|eos|pad)>|<(?:start|end)_of_turn>|\[/?INST\]")
_LAST = re.compile(rf"(?:{_SPECIAL.pattern})\Z")
_LONGEST = 44


def plain_prompt(text: str) -> str:
    """A prompt as people read it: the user's turn; with several turns, each with its role; else without the tokens."""
    for pattern in _TURNS:
        turns = [(found["role"], found["text"].strip()) for found in pattern.finditer(text)]
        said = [(role, words) for role, words in turns if words]
        if said:
            asked = [words for role, words in said if role == "user"]
            if len(asked) == 1 and all(role in ("user", "system") for role, _ in said):
                return asked[0]
            return "\n\n".join(f"{role}: {words}" for role, words in said)
    return _SPECIAL.sub("", text).strip()


def plain_response(text: str) -> str:
    """A response without the tokens at its end; what stands within it is its own."""
    end = len(text.rstrip())
    # From the end, a token at a time: one expression for them all goes back at every run of white space.
    while (found := _LAST.search(text, max(0, end - _LONGEST), end)) is not None:
        end = found.start()
        while end > 0 and text[end - 1].isspace():
            end -= 1
    return text[:end].strip()
