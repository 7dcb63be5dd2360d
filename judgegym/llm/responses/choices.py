"""Read a choice of a chat completion, and write it in the same format.

A choice is read in the formats of the common servers (OpenAI, vLLM, SGLang, DeepSeek, OpenRouter,
llama.cpp): missing fields and fields of another type are left out, and only a choice without a
message is an error. vLLM sends the sampled tokens in `token_ids`; llama.cpp's server has an `id` in
each entry of `logprobs.content`, except for tokens that end within a character and for those of a
stop string (seen with xllamacpp 2026.10.11549, November 2026; pull request 18454 of
ggml-org/llama.cpp describes the first).

Guarantee: the sampled tokens are all of a choice's tokens, or its first ones without gaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from judgegym.llm.wire import JSON, Choice, Token, text_or_empty

KEPT_TOKENS = "judgegym_tokens"
LONGEST_REASON = 64
_TEXT_PARTS = frozenset({None, "text", "output_text"})
_REASONING_PARTS = frozenset({"reasoning", "reasoning_text", "thinking"})
_LARGEST_TOKEN_ID = 2**31


class NotACompletion(ValueError):
    """JSON that is not a choice of a chat completion; the message says what is missing."""


def choice_to_json(choice: Choice) -> JSON:
    """Return a choice in the format of an endpoint, which `choice_from_json` reads back."""
    message: JSON = {
        "content": choice.text,
        "reasoning": choice.reasoning,
        "refusal": choice.refusal,
    }
    sent: dict[str, JSON] = {"message": message, "finish_reason": choice.finish_reason}
    if choice.tokens is not None:
        sent[KEPT_TOKENS] = [
            {
                "token": token.text,
                "top_logprobs": [
                    {"token": text, "logprob": logprob} for text, logprob in token.top
                ],
            }
            for token in choice.tokens
        ]
    return sent


def choice_from_json(choice: JSON, *, token_count: int = 0) -> Choice:
    """Parse one element of a chat completion's `choices`.

    Args:
        choice: the element.
        token_count: the endpoint's count of its tokens; 0 if it is not known.

    Raises:
        NotACompletion: it has another format.
    """
    message = None
    if isinstance(choice, dict):
        message = choice.get("message")
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise NotACompletion("a choice has no message")
    finish, content = choice.get("finish_reason"), message.get("content")
    text, thought, refused = (
        (content, "", "") if isinstance(content, str) else _parse_parts(content)
    )
    logprobs = choice.get("logprobs")
    ids, token_logprobs = _parse_sampled(choice.get("token_ids"), logprobs, token_count)
    entries = None
    if isinstance(logprobs, dict):
        entries = logprobs.get("content")
    tokens = _parse_tokens(choice.get(KEPT_TOKENS)) or _parse_tokens(entries, is_sent=True)
    return Choice(
        text=text,
        # `reasoning_content`: vLLM, DeepSeek; `reasoning`: OpenRouter, newer vLLM.
        reasoning=text_or_empty(message.get("reasoning_content"))
        or text_or_empty(message.get("reasoning"))
        or thought
        or None,
        finish_reason=finish[:LONGEST_REASON] if isinstance(finish, str) and finish else None,
        refusal=text_or_empty(message.get("refusal")) or refused or None,
        token_ids=ids,
        logprobs=token_logprobs,
        tokens=tokens,
    )


def _parse_parts(content: JSON) -> tuple[str, str, str]:
    """Return text, reasoning and refusal of a message's content that is `None` or a list of parts.

    A part is read by its type. Mistral's `thinking` parts have a list of texts in a field of that
    name.
    """
    if content is None:
        return "", "", ""
    if not isinstance(content, Sequence):
        type_name = type(content).__name__
        raise NotACompletion(f"a message's content is {type_name}, not text")
    texts, thoughts, refusals = list[str](), list[str](), list[str]()
    for part in content:
        kind = None
        if isinstance(part, Mapping):
            kind = part.get("type")
        if not isinstance(part, Mapping) or not isinstance(kind, str | None):
            continue
        if kind in _TEXT_PARTS:
            texts.append(text_or_empty(part.get("text")))
        elif kind in _REASONING_PARTS:
            inner = part.get("thinking") or part.get("text") or part.get("reasoning")
            thoughts.append(
                _parse_parts(inner)[0] if isinstance(inner, list) else text_or_empty(inner)
            )
        elif kind == "refusal":
            refusals.append(text_or_empty(part.get("refusal")))
    return "".join(texts), "".join(thoughts), "".join(refusals)


def parse_token_ids(value: JSON) -> tuple[int, ...] | None:
    """Parse token ids as vLLM sends them.

    In `token_ids` and `prompt_token_ids` (0.10.2 and later, with `return_token_ids`).
    """
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return None
    ids = cast("list[int]", value)
    if not ids or (min(ids) >= 0 and max(ids) < _LARGEST_TOKEN_ID):
        return tuple(ids)
    return None


def _parse_sampled(
    ids: JSON, logprobs: JSON, token_count: int
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """Return the ids and logprobs of the sampled tokens; either may be missing."""
    numbers = None
    if logprobs is not None:
        numbers = _parse_logprobs(logprobs)
    if ids is not None:
        return parse_token_ids(ids), numbers
    content = None
    if isinstance(logprobs, Mapping):
        content = logprobs.get("content")
    if not isinstance(content, list) or not content:
        return None, numbers
    sampled = parse_token_ids(
        [entry.get("id") if isinstance(entry, dict) else None for entry in content]
    )
    if sampled is None or len(sampled) == token_count:
        return sampled, numbers
    # A token that is left out comes before an entry whose text is not ASCII, or at the end.
    texts = [entry.get("token") if isinstance(entry, dict) else None for entry in content]
    gaps = (not isinstance(text, str) or not text.isascii() for text in texts)
    count = next((index for index, is_gap in enumerate(gaps) if is_gap), len(texts))
    return sampled[:count], None if numbers is None else numbers[:count]


def _parse_logprobs(value: JSON) -> tuple[float, ...] | None:
    """Return the sampled tokens' logprobs; `None` unless every entry has a number."""
    try:  # one check for all entries: there are as many as tokens
        numbers = [
            entry["logprob"]
            for entry in cast("dict[str, list[dict[str, float]]]", value)["content"]
        ]
        if set(map(type, numbers)) <= {float, int} and all(map(math.isfinite, numbers)):
            return tuple(map(float, numbers))
    except (TypeError, KeyError, IndexError, OverflowError):
        pass
    return None


def _parse_tokens(content: JSON, *, is_sent: bool = False) -> tuple[Token, ...] | None:
    """Parse tokens with their alternatives; `None` if the content has none."""
    # `dict`, and not `Mapping`, whose check takes four times as long: there are as many entries as
    # tokens.
    if not isinstance(content, list) or (
        is_sent
        and not any(isinstance(entry, dict) and entry.get("top_logprobs") for entry in content)
    ):
        return None
    tokens: list[Token] = []
    for entry in content:
        text = None
        if isinstance(entry, dict):
            text = entry.get("token")
        if not isinstance(text, str):
            return None
        wanted = any(character.isdigit() for character in text)
        tokens.append(Token(text, _alternatives(entry.get("top_logprobs")) if wanted else ()))
    return tuple(tokens)


def _alternatives(value: JSON) -> tuple[tuple[str, float], ...]:
    alternatives: list[tuple[str, float]] = []
    for entry in value if isinstance(value, list) else ():
        text, logprob = (
            (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
        )
        if (
            isinstance(text, str)
            and isinstance(logprob, float | int)
            and not isinstance(logprob, bool)
        ):
            with suppress(OverflowError):  # an integer beyond the range of floats
                alternatives.append((text, float(logprob)))
    return tuple(alternatives)
