"""JSON on the wire: the encoder, and the types of what is sent to a model and of what it answers.

Lone surrogates (an escape in JSON can make one) cannot be encoded as UTF-8. They are replaced by U+FFFD here, in
what is read and in what is sent, so that no other module has to handle them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict, cast

import orjson

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
ChoiceState = Literal["ok", "refusal", "empty", "length"]

_EXCERPT_BYTES = 20_000
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
        top: the likeliest tokens at its position with their logprobs; kept only for tokens with a digit, since they
            serve to compute expected scores.
    """

    text: str
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion of a chat answer.

    Attributes:
        text: the content, empty if the endpoint sent none.
        reasoning: reasoning that the endpoint returned in a field of its own.
        finish_reason: `stop`, `length`, `content_filter`, … as sent.
        refusal: the refusal, if the endpoint returned one in a field of its own.
        token_ids: the sampled tokens, if requested and returned.
        logprobs: one for each sampled token, if requested and returned.
        tokens: the text in tokens with their alternatives, if requested and returned.
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
        """`ok`, or why this is not a whole answer."""
        if self.refusal is not None or self.finish_reason == "content_filter":
            return "refusal"
        if self.finish_reason == "length":
            return "length"
        return "ok" if self.text.strip() else "empty"


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
    """UTF-8 JSON, keys in the order of insertion."""
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
        # The standard library reads what orjson refuses: escaped lone surrogates, NaN and Infinity.
        try:
            return scrub_all(cast(JSON, json.loads(data)))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def lookup(value: JSON, name: str) -> JSON:
    """The value at a dotted path (in a list, an index from 0); `None` if there is none."""
    for part in name.split("."):
        if isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def error_text(data: bytes) -> str:
    """The message of an error body: the OpenAI-style one if there is one, else the text.

    Not shortened: secrets are removed first, and a part of one would not be found.
    """
    try:
        body = loads(data)
    except ValueError:
        return excerpt(data)
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message") or error.get("detail") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message else excerpt(data)


def excerpt(data: bytes) -> str:
    """The beginning of a body's text, as one line."""
    return " ".join(data[:_EXCERPT_BYTES].decode("utf-8", "replace").split()) or "empty body"


def shorten(text: str, length: int = 500) -> str:
    """The beginning of a text, as one line."""
    line = " ".join(text.split())
    return line[:length] + "…" if len(line) > length else line
