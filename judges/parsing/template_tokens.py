"""Chat-template tokens at the end of a text, which some endpoints and trainers leave there."""

from __future__ import annotations

import re

# ChatML, Llama 3, Mistral, Gemma, DeepSeek (whose bars are full-width and whose blanks are U+2581), …
TEMPLATE_TOKEN = re.compile(
    r"<\|[a-z_0-9]{1,40}\|>|<｜[A-Za-z▁]{1,40}｜>|</?s>|<(?:bos|eos|pad)>|<(?:start|end)_of_turn>|\[/?INST\]"
)
_LAST = re.compile(rf"(?:{TEMPLATE_TOKEN.pattern})\Z")
_LONGEST = 44


def without_trailing_tokens(text: str) -> str:
    """`text` without the tokens at its end and the white space around them; as it is if it ends with none.

    Takes linear time: one expression for all tokens would go back at every run of white space.
    """
    end = len(text.rstrip())
    cut = False
    while (token := _LAST.search(text, max(0, end - _LONGEST), end)) is not None:
        cut, end = True, token.start()
        while end > 0 and text[end - 1].isspace():
            end -= 1
    return text[:end] if cut else text
