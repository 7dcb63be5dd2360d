"""What the finish reason of a choice means: the one list of the words that endpoints send.

A choice is whole only if its word is known to say so, or if the user has accepted the word (`FinishRules.accepted`).
A word that nobody knows is a failed attempt. Case does not count, and neither do `-`, `_` and spaces. The words are
those of OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, TensorRT-LLM, Anthropic, Gemini, Bedrock, Mistral, Cohere,
watsonx, DeepSeek, Zhipu, ERNIE, Aleph Alpha, AI21, OpenRouter and LiteLLM, as their documentation and their servers
had them in 2026.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

FinishState: TypeAlias = Literal["whole", "tool_calls", "cut_off", "refused", "broken_off", "unknown"]
"""tool_calls: the model waits for results of tools. broken_off: the server or somebody else ended the answer. The
others are as in `judgegym.llm.wire.ChoiceState`."""

_SEPARATORS = re.compile(r"[-_\s]+")
_WHOLE = (
    *("stop", "stopped", "stop_sequence", "stop_token", "stop_word", "stop_words", "stop_criteria_met", "end"),
    *("eos", "eos_token", "eot", "end_turn", "end_of_turn", "end_of_text", "endoftext", "end_of_sequence", "end_id"),
    *("im_end", "complete", "completed", "finish", "finished", "done", "normal"),
)
_TOOL_CALLS = ("tool_calls", "tool_call", "function_call", "function_calls", "tool_use")
_CUT_OFF = (
    *("length", "max_tokens", "max_token", "max_output_tokens", "max_completion_tokens", "max_new_tokens"),
    *("max_length", "maximum_tokens", "token_limit", "limit", "incomplete", "not_finished", "model_length"),
    *("context_length", "context_length_exceeded", "context_window_exceeded", "model_context_window_exceeded"),
    *("error_limit", "repetition"),
)
_REFUSED = (
    *("refusal", "refused", "content_filter", "content_filtered", "content_filter_error", "filtered", "safety"),
    *("recitation", "prohibited_content", "blocklist", "blocked", "spii", "sensitive", "language", "error_toxic"),
    *("guardrail", "guardrails", "guardrail_intervened", "image_safety", "image_prohibited_content"),
    *("image_recitation", "model_armor", "policy_violation", "moderation"),
)
_BROKEN_OFF = (
    *("error", "errored", "failed", "failure", "fault", "abort", "aborted", "cancel", "cancelled", "canceled"),
    *("user_cancel", "user_cancelled", "timeout", "timed_out", "time_limit", "deadline_exceeded", "interrupted"),
    *("preempted", "disconnect", "disconnected", "network_error", "server_error", "internal_error"),
    *("insufficient_system_resource", "overloaded", "pause_turn", "malformed_function_call", "malformed_tool_use"),
    *("malformed_response", "malformed_model_output", "unexpected_tool_call", "too_many_tool_calls"),
    *("missing_thought_signature", "load", "unload"),
)


@lru_cache(maxsize=1024)
def normalized(reason: str) -> str:
    """A finish reason in the spelling of the list: lower case, `_` between its words."""
    return _SEPARATORS.sub("_", reason.strip().lower())


_OF_STATE: tuple[tuple[FinishState, tuple[str, ...]], ...] = (
    ("whole", _WHOLE),
    ("tool_calls", _TOOL_CALLS),
    ("cut_off", _CUT_OFF),
    ("refused", _REFUSED),
    ("broken_off", _BROKEN_OFF),
)
_STATES: dict[str, FinishState] = {word: state for state, words in _OF_STATE for word in words}
_SAID: dict[FinishState, str] = {
    "tool_calls": "waits for the results of tools",
    "cut_off": "was cut off",
    "refused": "was refused",
    "broken_off": "broke off",
}


@dataclass(frozen=True, slots=True)
class FinishRules:
    """Which answers of one model are whole.

    Attributes:
        accepted: finish reasons that are whole beside the known ones, normalized.
        setting: the setting that accepts them, for messages.
        takes_tool_calls: whether a text beside tool calls is a whole answer; for a judge it is none.
    """

    accepted: frozenset[str] = frozenset()
    setting: str = "finish_reasons"
    takes_tool_calls: bool = False

    def state(self, reason: str) -> FinishState:
        """What a finish reason means."""
        word = normalized(reason)
        return _STATES.get(word, "whole" if word in self.accepted else "unknown")

    def is_tool_call(self, reason: str | None) -> bool:
        """Whether a finish reason says that the model waits for the results of tools."""
        return reason is not None and self.state(reason) == "tool_calls"


KNOWN_WORDS_ALONE = FinishRules()
"""The rules of a model for which no further word is accepted."""


def accepted_reasons(words: Iterable[str]) -> frozenset[str]:
    """The words of a setting, normalized.

    Raises:
        ValueError: a word is empty, or is known to end an answer that is not whole.
    """
    accepted = frozenset(map(normalized, words))
    for word in sorted(accepted):
        state = _STATES.get(word, "unknown")
        if not word:
            raise ValueError("a finish reason is empty; expected words such as done")
        if state not in ("whole", "unknown"):
            raise ValueError(f"{word!r} says that an answer {_SAID[state]}; it cannot be accepted as whole")
    return accepted


def known_reasons(state: FinishState) -> Collection[str]:
    """The known words of a state, normalized."""
    return [word for word, of_word in _STATES.items() if of_word == state]
