"""JSON on the wire: the encoder, and the parts of a chat completion that this project reads.

Lone surrogates (which an escape in a JSON text can make) cannot be encoded as UTF-8; they become U+FFFD here, on the
way in and on the way out, so that nothing behind this border meets one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict, cast

import orjson

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
ChoiceState = Literal["ok", "refusal", "empty", "length"]

_EXCERPT_BYTES = 20_000
_KEPT_TOKENS = "judgegym_tokens"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Message(TypedDict):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a choice's text.

    Attributes:
        text: as the endpoint gives it.
        top: the likeliest tokens at its place with their logprobs; kept for tokens that hold a digit alone, since there
            are hundreds of the others and scores are what they are wanted for.
    """

    text: str
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion of a chat answer.

    Attributes:
        text: the content, empty if the endpoint sent none.
        reasoning: reasoning that the endpoint returned apart from the content.
        finish_reason: `stop`, `length`, `content_filter`, … as sent.
        refusal: the endpoint's own refusal, where it says so apart from the content.
        token_ids: the sampled tokens, where the endpoint was asked for them and gives them.
        logprobs: one for each sampled token, where the endpoint was asked for them and gives them.
        tokens: the text in tokens, where the endpoint was asked for their alternatives and gives them.
    """

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    refusal: str | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    tokens: tuple[Token, ...] | None = None

    @property
    def state(self) -> ChoiceState:
        """`ok`, or what came instead of a whole answer."""
        if self.refusal is not None or self.finish_reason == "content_filter":
            return "refusal"
        if self.finish_reason == "length":
            return "length"
        return "ok" if self.text.strip() else "empty"


@dataclass(frozen=True, slots=True)
class RequestFields:
    """What is read of a chat completion's body.

    Token counts are 0 where the endpoint gives none; the prompt's token ids are there if it was asked for them.
    """

    choices: tuple[Choice, ...]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_token_ids: tuple[int, ...] | None = None


class NotACompletion(ValueError):
    """A body that is not a chat completion; the message says what is missing."""


def message_json(message: Message) -> dict[str, JSON]:
    """A message as it is sent."""
    return {"role": message["role"], "content": message["content"]}


def scrub(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD."""
    return _SURROGATES.sub("�", text)


def scrub_all(value: JSON) -> JSON:
    """`scrub` over every string of a JSON value, keys included."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub(key): scrub_all(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [scrub_all(item) for item in value]
    return value


def dumps(value: JSON) -> bytes:
    """UTF-8 JSON, keys in their own order."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(scrub_all(value))


def dumps_readable(value: JSON) -> bytes:
    """UTF-8 JSON for people: indented, with a newline at its end."""
    return orjson.dumps(scrub_all(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def loads(data: bytes | str) -> JSON:
    """The JSON value of `data`.

    Raises:
        ValueError: not JSON.
    """
    try:
        return cast(JSON, orjson.loads(data))
    except orjson.JSONDecodeError:
        # orjson refuses escaped lone surrogates, which the standard library reads; NaN and Infinity it reads too.
        try:
            return scrub_all(cast(JSON, json.loads(data)))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def lookup(value: JSON, name: str) -> JSON:
    """The value under a dotted name (in a list, a place from 0), `None` if there is none."""
    for part in name.split("."):
        if isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def parse_completion(data: bytes) -> RequestFields:
    """The choices and token counts of a `/chat/completions` answer.

    Raises:
        NotACompletion: the body has not that shape.
    """
    try:
        body = loads(data)
    except ValueError as error:
        raise NotACompletion(f"the body is not JSON ({excerpt(data)})") from error
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(choices, list) or not choices:
        raise NotACompletion(f"the body has no choices ({excerpt(data)})")
    usage = body.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return RequestFields(
        choices=tuple(choice_from_json(choice) for choice in choices),
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
        prompt_token_ids=_token_ids(body.get("prompt_token_ids")),
    )


def choice_to_json(choice: Choice) -> JSON:
    """A choice in the shape in which an endpoint sends it, so that `choice_from_json` reads both."""
    message: JSON = {"content": choice.text, "reasoning": choice.reasoning, "refusal": choice.refusal}
    sent: dict[str, JSON] = {"message": message, "finish_reason": choice.finish_reason}
    if choice.tokens is not None:
        sent[_KEPT_TOKENS] = [_token_to_json(token) for token in choice.tokens]
    return sent


def _token_to_json(token: Token) -> JSON:
    top: list[JSON] = [{"token": text, "logprob": logprob} for text, logprob in token.top]
    return {"token": token.text, "top_logprobs": top}


def choice_from_json(choice: JSON) -> Choice:
    """One element of a chat completion's `choices`.

    Raises:
        NotACompletion: it has not that shape.
    """
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise NotACompletion("a choice has no message")
    finish = choice.get("finish_reason")
    return Choice(
        text=_content(message.get("content")),
        # vLLM and DeepSeek say `reasoning_content`, OpenRouter and newer vLLM `reasoning`.
        reasoning=_optional_text(message.get("reasoning_content")) or _optional_text(message.get("reasoning")),
        finish_reason=finish if isinstance(finish, str) else None,
        refusal=_optional_text(message.get("refusal")),
        token_ids=_token_ids(choice.get("token_ids")),
        logprobs=_logprobs(choice.get("logprobs")),
        tokens=_kept_tokens(choice.get(_KEPT_TOKENS)) or _tokens(choice.get("logprobs")),
    )


def _content(content: JSON) -> str:
    """A message's content: a string, or a list of parts of which the text ones count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    raise NotACompletion(f"a message's content is {type(content).__name__}, not text")


def _optional_text(value: JSON) -> str | None:
    return value if isinstance(value, str) and value else None


def _token_ids(value: JSON) -> tuple[int, ...] | None:
    """Token ids as vLLM gives them: `token_ids` and `prompt_token_ids` (0.10.2 and later, with `return_token_ids`)."""
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return None
    return tuple(cast("list[int]", value))


def _logprobs(value: JSON) -> tuple[float, ...] | None:
    """The sampled tokens' logprobs of `logprobs.content`; `None` unless there is a number for each."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return None
    try:  # asked for forgiveness, not for each type: there are as many entries as tokens
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
    given = any(isinstance(entry, Mapping) and entry.get("top_logprobs") for entry in content)
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
    for each in value if isinstance(value, list) else ():
        text, logprob = (each.get("token"), each.get("logprob")) if isinstance(each, Mapping) else (None, None)
        if isinstance(text, str) and isinstance(logprob, float | int) and not isinstance(logprob, bool):
            try:
                found.append((text, float(logprob)))
            except OverflowError:  # a whole number that no float holds
                continue
    return tuple(found)


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def error_text(data: bytes) -> str:
    """What an error body says, for people: the OpenAI-style message if there is one, else its text.

    Not shortened yet: a secret has to be found whole before anything is cut.
    """
    try:
        body = loads(data)
    except ValueError:
        return excerpt(data)
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message") or error.get("detail") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message else excerpt(data)


def excerpt(data: bytes) -> str:
    """A body's text as one line, as far as it can matter in a message."""
    return " ".join(data[:_EXCERPT_BYTES].decode("utf-8", "replace").split()) or "empty body"


def shorten(text: str, length: int = 500) -> str:
    """The beginning of a text, as one line."""
    line = " ".join(text.split())
    return line[:length] + "…" if len(line) > length else line
