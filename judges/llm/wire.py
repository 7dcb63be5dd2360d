"""JSON on the wire: the encoder, and the types of what is sent to a model and of what it answers.

Lone surrogates (which an escape in a JSON text can make) cannot be encoded as UTF-8; they become U+FFFD here, on the
way in and on the way out, so that nothing behind this border meets one.
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
