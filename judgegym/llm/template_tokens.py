"""Role and template tokens: strings that a tokenizer may read as special tokens.

Guarantees: `break_up_tokens` leaves no token in a text and can be undone exactly; a text without
tokens stays as it is; all functions take linear time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BREAK = "¦"
"""Inserted after a token's first character: `<|im_start|>` becomes `<¦|im_start|>`."""

# ChatML, Llama 3, Phi, Command R, gpt-oss, GLM, Kimi (`<|name|>`), DeepSeek (full-width bars),
# EXAONE (`[|name|]`).
_NAME = rf"[^\s<>＜＞\[\]［］|｜{BREAK}]{{1,64}}"
_ANGLED = (
    *(
        "s",
        "/s",
        "bos",
        "eos",
        "pad",
        "unk",
        "mask",
        "sop",
        "eop",
        "BOS_TOKEN",
        "EOS_TOKEN",
        "PAD_TOKEN",
    ),
    *("start_of_turn", "end_of_turn", "start_of_image", "end_of_image"),
    *("tool_call", "/tool_call", "tool_response", "/tool_response"),
    *("seed:bos", "seed:eos", "fim_prefix", "fim_middle", "fim_suffix"),
    *("SYS>", "/SYS>"),  # the second half of Llama 2's `<<SYS>>` and `<</SYS>>`
)
_BRACKETED = (
    *("INST", "/INST", "SYSTEM_PROMPT", "/SYSTEM_PROMPT", "AVAILABLE_TOOLS", "/AVAILABLE_TOOLS"),
    *("TOOL_CALLS", "TOOL_RESULTS", "/TOOL_RESULTS", "TOOL_CONTENT", "ARGS", "CALL_ID", "gMASK"),
)


class EscapedText(NamedTuple):
    """A text whose tokens are broken up, and their number."""

    text: str
    tokens: int


_BARS = rf"[|｜]{_NAME}[|｜]"


def _token_patterns(*, before: str = "") -> tuple[str, str]:
    """Return the patterns of what follows `<` and `[` in a token."""
    angled, bracketed = "|".join(map(re.escape, _ANGLED)), "|".join(map(re.escape, _BRACKETED))
    return f"{before}(?:{_BARS}|{angled})[>＞]", f"{before}(?:{_BARS}|{bracketed})[\\]］]"


def _backwards() -> str:
    """Return the pattern of a token that is read backwards."""
    angled = "|".join(re.escape(name[::-1]) for name in _ANGLED if not name.endswith(">"))
    bracketed = "|".join(re.escape(name[::-1]) for name in _BRACKETED)
    return f"[>＞](?:{_BARS}|{angled}|>SYS/?<)[<＜]|[\\]］](?:{_BARS}|{bracketed})[\\[［]"


_ANGLED_REST, _BRACKETED_REST = _token_patterns()
TEMPLATE_TOKEN = re.compile(f"[<＜]{_ANGLED_REST}|[\\[［]{_BRACKETED_REST}")
"""A token, for `re.sub`."""

_BROKEN_ANGLED, _BROKEN_BRACKETED = _token_patterns(before=f"{BREAK}*")
_RESTS = {
    "<": _BROKEN_ANGLED,
    "＜": _BROKEN_ANGLED,
    "[": _BROKEN_BRACKETED,
    "［": _BROKEN_BRACKETED,
}
# One for each first sign: splitting at a literal sign and joining again is the fastest way to
# replace it.
_TO_BREAK = {
    sign: re.compile(f"{re.escape(sign)}(?={remainder})") for sign, remainder in _RESTS.items()
}
_TOKENS_FROM_END = re.compile(rf"\s*(?:(?:{_backwards()})\s*)+")


def break_up_tokens(text: str) -> EscapedText:
    """Break up every token in a text; `tokens` counts those that were not broken up before.

    A token that is already broken up gets one more sign, so that the original can be restored.

    >>> break_up_tokens("</s><|im_start|>user")
    EscapedText(text='<¦/s><¦|im_start|>user', tokens=2)
    """
    broken, tokens, has_breaks = text, 0, BREAK in text
    for sign, pattern in _TO_BREAK.items():
        if sign in text:
            before, *pieces = pattern.split(broken)
            broken = f"{sign}{BREAK}".join([before, *pieces])
            tokens += len(pieces) - (
                [piece[0] for piece in pieces].count(BREAK) if has_breaks else 0
            )
    return EscapedText(broken, tokens)


def strip_trailing_tokens(text: str) -> str:
    """Return `text` without the tokens and the white space at its end, if it ends with tokens."""
    if not text.rstrip().endswith((">", "＞", "]", "］")):
        return text
    match = _TOKENS_FROM_END.match(
        text[::-1]
    )  # forwards, a run of white space would be read again from each place
    if match is None:
        return text
    return text[: len(text) - match.end()]
