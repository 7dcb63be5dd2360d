"""The list of finish reasons, and which of them end a whole choice.

A choice is whole only if its finish reason is known to mean that, or if the user has accepted it
(`FinishRules.accepted`). Case, `-`, `_` and spaces do not matter. The words are those of OpenAI,
Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, TensorRT-LLM, Anthropic, Gemini, Bedrock, Mistral,
Cohere, watsonx, DeepSeek, Zhipu, ERNIE, Aleph Alpha, AI21, OpenRouter and LiteLLM, according to
their documentation and their servers in 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

FinishState: TypeAlias = Literal[
    "whole", "tool_calls", "cut_off", "refused", "broken_off", "unknown"
]
"""tool_calls: the model waits for results of tools. broken_off: the server ended the response.

The others are those of `judgegym.llm.wire.ChoiceState`.
"""

_SEPARATORS = re.compile(r"[-_\s]+")
WORDS: Mapping[FinishState, str] = {
    "whole": """stop stopped stop_sequence stop_token stop_word stop_words stop_criteria_met
        end eos eos_token eot end_turn end_of_turn end_of_text endoftext end_of_sequence end_id
        im_end complete completed finish finished done normal""",
    "tool_calls": "tool_calls tool_call function_call function_calls tool_use",
    "cut_off": """length max_tokens max_token max_output_tokens max_completion_tokens
        max_new_tokens max_length maximum_tokens token_limit limit incomplete not_finished
        model_length context_length context_length_exceeded context_window_exceeded
        model_context_window_exceeded error_limit repetition""",
    "refused": """refusal refused content_filter content_filtered content_filter_error filtered
        safety recitation prohibited_content blocklist blocked spii sensitive language error_toxic
        guardrail guardrails guardrail_intervened image_safety image_prohibited_content
        image_recitation model_armor policy_violation moderation""",
    "broken_off": """error errored failed failure fault abort aborted cancel cancelled canceled
        user_cancel user_cancelled timeout timed_out time_limit deadline_exceeded interrupted
        preempted disconnect disconnected network_error server_error internal_error
        insufficient_system_resource overloaded pause_turn malformed_function_call
        malformed_tool_use malformed_response malformed_model_output unexpected_tool_call
        too_many_tool_calls missing_thought_signature load unload""",
}


def _states_by_word() -> Mapping[str, FinishState]:
    states: dict[str, FinishState] = {}
    for state, words in WORDS.items():
        states.update(dict.fromkeys(words.split(), state))
    return states


_STATES = _states_by_word()
_DESCRIPTIONS: Mapping[FinishState, str] = {
    "tool_calls": "waits for the results of tools",
    "cut_off": "was cut off",
    "refused": "was refused",
    "broken_off": "broke off",
}


@lru_cache(maxsize=1024)
def normalize_reason(reason: str) -> str:
    """Return a finish reason in the list's spelling: lower case, `_` between words."""
    return _SEPARATORS.sub("_", reason.strip().lower())


@dataclass(frozen=True, slots=True)
class FinishRules:
    """The finish reasons that mean a whole response of one model.

    Attributes:
        accepted: further finish reasons that mean a whole response, normalized.
        setting: the setting that accepts them, for messages.
        takes_tool_calls: whether a text with tool calls is a whole response; for a judge it is not.
    """

    accepted: frozenset[str] = frozenset()
    setting: str = "finish_reasons"
    takes_tool_calls: bool = False

    def state(self, reason: str) -> FinishState:
        """Return the meaning of a finish reason."""
        word = normalize_reason(reason)
        return _STATES.get(word, "whole" if word in self.accepted else "unknown")


DEFAULT_RULES = FinishRules()
"""The rules without additional accepted words."""


def parse_accepted(words: Iterable[str]) -> frozenset[str]:
    """Normalize the words of a setting.

    Raises:
        ValueError: a word is empty, or is known to end a response that is not whole.
    """
    accepted = frozenset(map(normalize_reason, words))
    for word in sorted(accepted):
        if not word:
            raise ValueError("a finish reason is empty; expected words such as done")
        if (description := _DESCRIPTIONS.get(_STATES.get(word, "unknown"))) is not None:
            raise ValueError(
                f"{word!r} means that a response {description}; it cannot be accepted as complete"
            )
    return accepted
