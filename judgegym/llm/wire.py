"""JSON on the wire: the encoder, and the types of requests and responses.

Lone surrogates (an escape in JSON can make one) cannot be encoded as UTF-8. This module replaces
them by U+FFFD when reading and sending, so that no other module has to handle them. Integers of
more than 64 bits become floating-point numbers, as in most JSON parsers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

import orjson
from typing_extensions import NotRequired, TypedDict

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Role = Literal["system", "user", "assistant"]
ChoiceState = Literal["whole", "cut_off", "refused"]
"""whole: the model ended its text. cut_off: at the length limit. refused: by model or filter.

A response in any other state is a failed attempt (`judgegym.llm.responses.outcome`).
"""

CUT_OFF = "length"
REFUSALS = ("content_filter", "refusal")
"""Finish reasons of choices that are not whole, after `judgegym.llm.responses.outcome`."""

_EXCERPT_BYTES = 20_000
_MOST_DIGITS = 300
_LEAST, _MOST = -(2**63), 2**64 - 1
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a conversation.

    Attributes:
        url: an http(s) address, which we never fetch, or a data URL; empty for a placeholder.
        detail: `low`, `high` or `auto`, for endpoints that read it; empty if not given.
        at: its position in its message's text.
        mark: its mark in a text, such as `[image 1]`; such an image follows the text, after its
            mark.
        width: in pixels; 0 if unknown.
        height: the same.
        name: a file name with a digest of the data, or the address. Keys use it instead of the
            data.
    """

    url: str = field(repr=False)
    detail: str = ""
    at: int = 0
    mark: str = ""
    width: int = 0
    height: int = 0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the name."""
        name = self.url
        if self.is_local:
            digest = hashlib.sha256(self.url.encode()).hexdigest()[:32]
            ending = self.url.removeprefix("data:image/").partition(";")[0]
            name = f"{digest}.{ending}"
        object.__setattr__(self, "name", name)

    @property
    def is_local(self) -> bool:
        """Whether the data is in the URL."""
        return self.url.startswith("data:")

    @property
    def data(self) -> bytes:
        """The bytes, if they are in the URL."""
        return base64.b64decode(self.url.partition(",")[2])


class Message(TypedDict):
    """One turn of a conversation; its images are sent as parts of its content."""

    role: Role
    content: str
    images: NotRequired[Sequence[Image]]


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a choice's text.

    Attributes:
        text: the text as the endpoint sends it.
        top: the most likely tokens at its position with their logprobs; kept only for tokens with a
            digit, to compute expected scores.
    """

    text: str
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion of a chat response.

    Attributes:
        text: the content, empty if the endpoint sent none.
        reasoning: reasoning that the endpoint returned in a separate field.
        finish_reason: as sent (`stop`, `end_turn`, …), but always `length` for a cut-off text, and
            `content_filter` or `refusal` for a refused one.
        refusal: the refusal, if the endpoint returned it apart from the content.
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
        """Whether the choice is whole, cut off or refused."""
        if self.refusal is not None or self.finish_reason in REFUSALS:
            return "refused"
        if self.finish_reason == CUT_OFF:
            return "cut_off"
        return "whole"


def messages_json(messages: Sequence[Message], *, by_name: bool = False) -> list[JSON]:
    """Return messages as they are sent; for keys, with images' names instead of their data."""
    return [
        {
            "role": message["role"],
            "content": content_json(message["content"], message.get("images", ()), by_name),
        }
        for message in messages
    ]


def content_json(text: str, images: Sequence[Image], by_name: bool = False) -> JSON:
    """Return a text with images in the format of OpenAI's chat API: a text, or its parts."""
    if not images:
        return text
    parts, place = list[JSON](), 0
    for image in images:
        end = len(text) if image.mark else image.at
        parts += [
            {"type": "text", "text": segment}
            for segment in (text[place:end], image.mark)
            if segment
        ]
        shown = {
            "url": image.name if by_name else image.url,
            **({"detail": image.detail} if image.detail else {}),
        }
        parts.append({"type": "image_url", "image_url": shown})
        place = end
    return [*parts, *([{"type": "text", "text": text[place:]}] if text[place:] else [])]


_VISIBLE = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    r"\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e007f]"
)


def is_blank(text: str) -> bool:
    """Return whether a text has only white space, control characters and zero-width characters."""
    return _VISIBLE.search(text) is None


def scrub(text: str) -> str:
    """Replace each lone surrogate in a text by U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATES.sub("�", text)


def scrub_all(value: JSON) -> JSON:
    """Apply `scrub` to every string of a JSON value, keys included; long integers become floats.

    Integers are long beyond 64 bits.
    """
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, int):
        if _LEAST <= value <= _MOST:
            return value
        return _as_float(value)
    if isinstance(value, Mapping):
        return {scrub(key): scrub_all(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [scrub_all(item) for item in value]
    return value


def is_nested_beyond(value: object, deepest: int) -> bool:
    """Return whether lists and mappings are nested deeper than `deepest`; a flat list is 1 deep."""
    level: list[object] = [value]
    for _ in range(deepest + 1):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                deeper += item.values()
            elif isinstance(item, list):
                deeper += item
        level = deeper
        if not level:
            return False
    return True


def dumps(value: JSON) -> bytes:
    """Encode a value as UTF-8 JSON, keys in the order of insertion."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(scrub_all(value))


def dumps_readable(value: JSON) -> bytes:
    """Encode a value as indented UTF-8 JSON with a newline at its end."""
    return orjson.dumps(scrub_all(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def loads(data: bytes | str, *, long_integers: bool = False) -> JSON:
    """Parse JSON.

    Args:
        data: the text.
        long_integers: read integers with more digits than Python converts as infinity.

    Raises:
        ValueError: not JSON.
    """
    try:
        return cast(JSON, orjson.loads(data))
    except orjson.JSONDecodeError:
        # The standard library reads what orjson refuses: escaped lone surrogates, NaN, Infinity,
        # long integers.
        try:
            return scrub_all(
                cast(JSON, json.loads(data, parse_int=_integer if long_integers else None))
            )
        except RecursionError:
            raise ValueError("nested too deeply") from None


def loads_or_none(data: bytes | str) -> JSON:
    """Parse JSON; return `None` if it is not JSON."""
    try:
        return loads(data)
    except ValueError:
        return None


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        if value > 0:
            return math.inf
        return -math.inf


def _integer(digits: str) -> int | float:
    """Convert digits to an integer; with more than a float can hold, to infinity.

    Such an integer takes long to convert.
    """
    if len(digits) <= _MOST_DIGITS:
        return int(digits)
    return float(digits)


def lookup(value: JSON, name: str, default: JSON = None) -> JSON:
    """Return the value at a dotted path (list indices from 0); `default` if there is none."""
    for part in name.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            return default
    return value


def text_or_empty(value: JSON) -> str:
    """Return the value if it is a text, else an empty one."""
    if isinstance(value, str):
        return value
    return ""


def mapping_or_empty(value: JSON) -> Mapping[str, JSON]:
    """Return the value if it is an object, else an empty one."""
    if isinstance(value, Mapping):
        return value
    return {}


def error_text(data: bytes) -> str:
    """Return the message of an error's body: OpenAI's field if there is one, else the text.

    `error.param` is put before it, if the message does not name that field. The text is not
    shortened, since secrets must be removed first.
    """
    body = loads_or_none(data)
    body = body[0] if isinstance(body, list) and body else body  # as Google sends it
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message") or error.get("detail") if isinstance(error, Mapping) else error
    text = message if isinstance(message, str) and message else excerpt(data)
    param = None
    if isinstance(error, Mapping):
        param = error.get("param")
    if not isinstance(param, str) or not param:
        return text
    escaped = re.escape(param)
    if re.search(rf"(?<!\w){escaped}(?!\w)", text):
        return text
    return f"param {param}: {text}"


def excerpt(data: bytes) -> str:
    """Return the beginning of a body's text, as one line."""
    return " ".join(data[:_EXCERPT_BYTES].decode("utf-8", "replace").split()) or "empty body"


def shorten(text: str, length: int = 500) -> str:
    """Return the beginning of a text, as one line."""
    line = " ".join(text.split())
    if len(line) > length:
        return line[:length] + "…"
    return line
