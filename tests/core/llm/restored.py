"""The inverse of `broken_up`."""

from __future__ import annotations

import re

from judgegym.llm.template_tokens import _RESTS, BREAK

_BROKEN = {sign: re.compile(f"{re.escape(sign)}{BREAK}(?={rest})") for sign, rest in _RESTS.items()}


def restored(text: str) -> str:
    """The text that `broken_up` has broken up."""
    for sign, pattern in _BROKEN.items():
        text = sign.join(pattern.split(text))
    return text
