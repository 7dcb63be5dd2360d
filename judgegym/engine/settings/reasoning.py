"""The request fields that ask a hosted reasoning model for an effort or a token budget.

The fields are those that Atropos sends (`atroposlib` 0.4.0, `ReasoningConfig.build_extra_body`). They have nothing to
do with `thinking_mode`, which asks for `<think>` tags in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from judgegym.llm.wire import JSON

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
_OPENAI = "api.openai.com"


def reasoning_body(
    base_url: str, *, effort: ReasoningEffort | None, max_reasoning_tokens: int | None
) -> Mapping[str, JSON]:
    """The fields for this endpoint; none if neither effort nor budget is set.

    OpenAI takes an effort at the top level. Other providers (OpenRouter, Nebius, Nous Portal) take an object, with an
    effort or a budget but not both: the effort wins.
    """
    if effort is None and max_reasoning_tokens is None:
        return {}
    if _OPENAI in base_url:
        return {"reasoning_effort": effort or "medium"}
    if effort is not None:
        return {"reasoning": {"enabled": True, "effort": effort}}
    return {"reasoning": {"enabled": True, "max_tokens": max_reasoning_tokens}}
