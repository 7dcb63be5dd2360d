"""A choice's JSON, read into a `Choice`, and choices written for the judgment cache.

Reads what the common servers send (OpenAI, vLLM, SGLang, DeepSeek, OpenRouter, llama.cpp): what is missing or of
another type is left out, and only a choice without a message is an error. Whether a choice may be used,
`judgegym.llm.outcome` decides.

Sampled tokens are either all of a choice's tokens or its first ones, never tokens with gaps. vLLM gives them under
`token_ids`; llama.cpp's server gives an `id` in each entry of `logprobs.content`, but none for a token at which a
character is not complete yet, and none for those of a stop string (seen with xllamacpp 2026.10.11549, November 2026;
pull request 18454 of ggml-org/llama.cpp describes the first).

What the finish reason of a choice means: the one list of the words that endpoints send.

A choice is whole only if its word is known to say so, or if the user has accepted the word (`FinishRules.accepted`).
A word that nobody knows is a failed attempt. Case does not count, and neither do `-`, `_` and spaces. The words are
those of OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, TensorRT-LLM, Anthropic, Gemini, Bedrock, Mistral, Cohere,
watsonx, DeepSeek, Zhipu, ERNIE, Aleph Alpha, AI21, OpenRouter and LiteLLM, as their documentation and their servers
had them in 2026.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, cast

from judgegym.llm.wire import JSON, Choice, Token

_KEPT_TOKENS = "judgegym_tokens"
LONGEST_REASON = 64
_TEXT_PARTS = frozenset({None, "text", "output_text"})
_REASONING_PARTS = frozenset({"reasoning", "reasoning_text", "thinking"})
_LARGEST_TOKEN_ID = 2**31


class NotACompletion(ValueError):
    """JSON that is not a choice of a chat completion; the message says what is missing."""


def choice_to_json(choice: Choice) -> JSON:
    """A choice in the shape in which an endpoint sends it, so that `choice_from_json` reads it back."""
    message: JSON = {"content": choice.text, "reasoning": choice.reasoning, "refusal": choice.refusal}
    sent: dict[str, JSON] = {"message": message, "finish_reason": choice.finish_reason}
    if choice.tokens is not None:
        sent[_KEPT_TOKENS] = [_token_to_json(token) for token in choice.tokens]
    return sent


def _token_to_json(token: Token) -> JSON:
    top: list[JSON] = [{"token": text, "logprob": logprob} for text, logprob in token.top]
    return {"token": token.text, "top_logprobs": top}


def choice_from_json(choice: JSON, *, token_count: int = 0) -> Choice:
    """One element of a chat completion's `choices`.

    Args:
        choice: the element.
        token_count: its tokens as the endpoint counted them; 0 if that is not known.

    Raises:
        NotACompletion: it has another shape.
    """
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise NotACompletion("a choice has no message")
    finish, content = choice.get("finish_reason"), message.get("content")
    text, thought, refused = (content, "", "") if isinstance(content, str) else _parts(content)
    logprobs, kept = choice.get("logprobs"), choice.get(_KEPT_TOKENS)
    ids, of_ids = _sampled(choice.get("token_ids"), logprobs, token_count)
    return Choice(
        text=text,
        # `reasoning_content`: vLLM, DeepSeek; `reasoning`: OpenRouter, newer vLLM.
        reasoning=_optional_text(message.get("reasoning_content"))
        or _optional_text(message.get("reasoning"))
        or _optional_text(thought),
        finish_reason=finish[:LONGEST_REASON] if isinstance(finish, str) and finish else None,
        refusal=_optional_text(message.get("refusal")) or refused or None,
        token_ids=ids,
        logprobs=of_ids,
        tokens=None if kept is None and logprobs is None else _kept_tokens(kept) or _tokens(logprobs),
    )


def _parts(content: JSON) -> tuple[str, str, str]:
    """Text, reasoning and refusal of a message's content that is no string: nothing, or a list of parts.

    A part is read by its type. Mistral's part of type `thinking` has a list of texts in a field of that name.
    """
    if content is None:
        return "", "", ""
    if not isinstance(content, Sequence):
        raise NotACompletion(f"a message's content is {type(content).__name__}, not text")
    texts, thoughts, refusals = list[str](), list[str](), list[str]()
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping) or not isinstance(kind, str | None):
            continue
        if kind in _TEXT_PARTS:
            texts.append(_optional_text(part.get("text")) or "")
        elif kind in _REASONING_PARTS:
            inner = part.get("thinking") or part.get("text") or part.get("reasoning")
            thoughts.append(_parts(inner)[0] if isinstance(inner, list) else _optional_text(inner) or "")
        elif kind == "refusal":
            refusals.append(_optional_text(part.get("refusal")) or "")
    return "".join(texts), "".join(thoughts), "".join(refusals)


def _optional_text(value: JSON) -> str | None:
    return value if isinstance(value, str) and value else None


def token_ids(value: JSON) -> tuple[int, ...] | None:
    """Token ids as vLLM gives them: `token_ids` and `prompt_token_ids` (0.10.2 and later, with `return_token_ids`)."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return None
    ids = cast("list[int]", value)
    return tuple(ids) if not ids or (min(ids) >= 0 and max(ids) < _LARGEST_TOKEN_ID) else None


def _sampled(ids: JSON, logprobs: JSON, token_count: int) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """The ids of the sampled tokens and their logprobs; either may be missing."""
    numbers = None if logprobs is None else _logprobs(logprobs)
    if ids is not None:
        return token_ids(ids), numbers
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list) or not content:
        return None, numbers
    found = token_ids([entry.get("id") if isinstance(entry, dict) else None for entry in content])
    if found is None or len(found) == token_count:
        return found, numbers
    # A token that is left out comes before an entry whose text is not ASCII, or at the end.
    known = next((place for place, entry in enumerate(content) if not _is_ascii(entry)), len(content))
    return found[:known], None if numbers is None else numbers[:known]


def _is_ascii(entry: JSON) -> bool:
    text = entry.get("token") if isinstance(entry, Mapping) else None
    return isinstance(text, str) and text.isascii()


def _logprobs(value: JSON) -> tuple[float, ...] | None:
    """The sampled tokens' logprobs of `logprobs.content`; `None` unless there is a number for each."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return None
    try:  # one check for all entries: there are as many as tokens
        numbers = [entry["logprob"] for entry in content]
        if set(map(type, numbers)) <= {float, int} and all(map(math.isfinite, numbers)):
            return tuple(map(float, numbers))
    except (TypeError, KeyError, OverflowError):
        pass
    return None


def _tokens(value: JSON) -> tuple[Token, ...] | None:
    """The tokens of `logprobs.content` with their alternatives; `None` if no token has any."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return None
    # `dict`, and not `Mapping`, whose check takes four times as long: there are as many entries as tokens.
    given = any(isinstance(entry, dict) and entry.get("top_logprobs") for entry in content)
    return _kept_tokens(content) if given else None


def _kept_tokens(content: JSON) -> tuple[Token, ...] | None:
    """Tokens with their alternatives; `None` where they are no such list."""
    if not isinstance(content, list):
        return None
    tokens: list[Token] = []
    for entry in content:
        text = entry.get("token") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(text, str):
            return None
        wanted = any(character.isdigit() for character in text)
        tokens.append(Token(text, _alternatives(entry.get("top_logprobs")) if wanted else ()))
    return tuple(tokens)


def _alternatives(value: JSON) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = []
    for entry in value if isinstance(value, list) else ():
        text, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, Mapping) else (None, None)
        if isinstance(text, str) and isinstance(logprob, float | int) and not isinstance(logprob, bool):
            try:
                found.append((text, float(logprob)))
            except OverflowError:  # an integer beyond the range of floats
                continue
    return tuple(found)


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
