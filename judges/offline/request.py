"""A chat completion request: what the stand-in reads of the body, checked."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

_MAX_CHOICES = 128
_MAX_ALTERNATIVES = 20
_SYSTEM_ROLES = frozenset({"system", "developer"})


class BadRequest(ValueError):
    """A body that is no chat completion request; `param` names the field that is wrong, if it is one field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        """An error with the message that the client is to read."""
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation, its text parts joined."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid request. `digest` identifies the whole body, whatever the order of its keys.

    `top_logprobs` is 0 where the request does not ask for `logprobs`.
    """

    messages: tuple[Message, ...]
    model: str
    temperature: float
    seed: int | None
    n: int
    max_tokens: int | None
    digest: str
    return_token_ids: bool = False
    logprobs: bool = False
    top_logprobs: int = 0


def system_text(messages: Sequence[Message]) -> str:
    """The text of all system messages, joined with newlines."""
    return "\n".join(message.content for message in messages if message.role in _SYSTEM_ROLES)


def parse_request(body: bytes) -> ChatRequest:
    """Read a request body; raises `BadRequest` (and nothing else) for a body that is not a valid request.

    Fields that the stand-in does not know are ignored, but they count in the digest.
    """
    try:
        data = orjson.loads(body)
        canonical = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
        # The encoder has limits of its own: it nests less deeply than the decoder.
        raise BadRequest(f"the request body is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest("the request body must be a JSON object")
    model = data.get("model")
    if not isinstance(model, str) or not model:
        _fail("model", "a non-empty string", model)
    if data.get("stream"):
        raise BadRequest("the stand-in does not stream: leave out 'stream'", "stream")
    temperature = data.get("temperature")
    if temperature is None:
        temperature = 1.0
    elif isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        _fail("temperature", "a number from 0 to 2", temperature)
    limit = "max_completion_tokens" if data.get("max_completion_tokens") is not None else "max_tokens"
    n = _integer(data, "n", 1, _MAX_CHOICES)
    logprobs = data.get("logprobs") is True
    alternatives = _integer(data, "top_logprobs", 0, _MAX_ALTERNATIVES) if logprobs else None
    return ChatRequest(
        messages=_messages(data.get("messages")),
        model=model,
        temperature=float(temperature),
        seed=_integer(data, "seed", None, None),
        n=1 if n is None else n,
        max_tokens=_integer(data, limit, 1, None),
        digest=hashlib.sha256(canonical).hexdigest(),
        return_token_ids=data.get("return_token_ids") is True,
        logprobs=logprobs,
        top_logprobs=alternatives or 0,
    )


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        _fail("messages", "a non-empty list", value)
    return tuple(_message(f"messages[{index}]", entry) for index, entry in enumerate(value))


def _message(name: str, entry: object) -> Message:
    if not isinstance(entry, dict):
        _fail(name, "an object", entry)
    role, content = entry.get("role"), entry.get("content")
    if not isinstance(role, str):
        _fail(f"{name}.role", "a string", role)
    if content is None:
        return Message(role, "")
    if isinstance(content, str):
        return Message(role, content)
    if not isinstance(content, list):
        _fail(f"{name}.content", "a string, a list of parts or null", content)
    return Message(role, "".join(_part(f"{name}.content[{index}]", part) for index, part in enumerate(content)))


def _part(name: str, part: object) -> str:
    text = part.get("text", "") if isinstance(part, dict) else None
    if not isinstance(text, str):
        _fail(name, "an object whose 'text', if any, is a string", part)
    return text


def _integer(data: dict[str, Any], name: str, low: int | None, high: int | None) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    wrong = isinstance(value, bool) or not isinstance(value, int)
    if wrong or (low is not None and value < low) or (high is not None and value > high):
        bounds = "" if low is None else f" of at least {low}" if high is None else f" from {low} to {high}"
        _fail(name, f"an integer{bounds}", value)
    return int(value)


def _fail(name: str, expected: str, value: object) -> NoReturn:
    shown = repr(value)
    raise BadRequest(f"'{name}' must be {expected}, not {shown if len(shown) <= 80 else shown[:77] + '...'}", name)
