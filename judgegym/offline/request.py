"""Requests and responses of the stand-in: chat completions, and OpenAI's Responses API.

It parses and checks the request fields that the stand-in uses. Tokens are bytes, with ChatML's
three specials after them, and made-up logprobs. Their ids are those of the tokenizer that is
bundled with the environments, so that an offline run needs no other.

The Responses API is supported as far as agents need it that use text: a request becomes a chat
request, and its response is converted back. The stand-in calls no tools and streams no responses of
this API. Source: OpenAI's API reference; NeMo Gym 0.4 reads the responses.

With `stream: true` a chat response is sent as server-sent events. Guarantees: the pieces of a text
make up the text of the response without `stream`, and with `logprobs` or `return_token_ids` the
entries and ids of a piece are those of its bytes. The first event of a choice has its role, the
last one its finish reason; events of several choices come in turn. `stream_options.include_usage`
adds an event with the usage and no choices. The last event is `[DONE]`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    StrictBool,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from judgegym.judges.core.seeding import make_generator
from judgegym.judges.parsing.verdict_parser import strip_form

_LARGEST = 2**63 - 1


class BadRequest(ValueError):
    """A request that cannot be answered.

    The message is sent to the client and names the wrong field.
    """


def _join_texts(content: Any) -> Any:
    """Return the text of a message's content: a list's text parts joined; empty for null."""
    if isinstance(content, list):
        texts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    if content is None:
        return ""
    return content


@pydantic_dataclass(frozen=True)
class RequestMessage:
    """A message of the conversation, its text parts joined."""

    role: str
    content: Annotated[str, BeforeValidator(_join_texts)] = ""


class _Schema(BaseModel):
    properties: dict[str, Any] = Field(min_length=1)


class _NamedSchema(BaseModel):
    schema_: _Schema = Field(alias="schema")


class _ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _NamedSchema | None = Field(None, validate_default=True)

    @field_validator("json_schema")
    @classmethod
    def _check(cls, value: _NamedSchema | None, info: ValidationInfo) -> _NamedSchema | None:
        if value is None and info.data.get("type") == "json_schema":
            raise ValueError("Input should have schema.properties, an object with a field or more")
        return value


class _StreamOptions(BaseModel):
    include_usage: StrictBool | None = None


_Tokens = Annotated[int | None, Field(ge=1, le=_LARGEST, strict=True)]
_Flag = Annotated[bool, BeforeValidator(lambda value: value is True)]


class ChatRequest(BaseModel):
    """A valid request. Unknown fields count only in the digest; null equals a missing field."""

    model: str = Field(min_length=1)
    messages: tuple[RequestMessage, ...] = Field(min_length=1)
    temperature: float = Field(1.0, ge=0, le=2, strict=True)
    seed: int | None = Field(None, ge=-_LARGEST, le=_LARGEST, strict=True)
    n: int = Field(1, ge=1, le=128, strict=True)
    max_tokens: _Tokens = None
    max_completion_tokens: _Tokens = None
    logprobs: _Flag = False
    top_logprobs: int = Field(0, ge=0, le=20, strict=True)
    return_token_ids: _Flag = False
    response_format: _ResponseFormat | None = None
    stream: StrictBool = False
    stream_options: _StreamOptions = _StreamOptions()
    _data: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in data.items() if value is not None}

    @field_validator("stream_options")
    @classmethod
    def _check_stream(cls, value: _StreamOptions, info: ValidationInfo) -> _StreamOptions:
        if not info.data.get("stream"):
            raise ValueError("Input should be left out where 'stream' is not true")
        return value

    @model_validator(mode="after")
    def _settle(self) -> ChatRequest:
        self.max_tokens = self.max_completion_tokens or self.max_tokens
        if not self.logprobs:
            self.top_logprobs = 0
        return self

    @property
    def properties(self) -> tuple[str, ...] | None:
        """Fields of the requested object, in their order; `None` if a text is requested."""
        form = self.response_format
        if form is None or form.type != "json_schema" or form.json_schema is None:
            return None
        return tuple(form.json_schema.schema_.properties)

    @cached_property
    def plain_messages(self) -> tuple[RequestMessage, ...]:
        """Messages without the description of the response format."""
        if self.properties is None:
            return self.messages
        *before, last = self.messages
        return (*before, RequestMessage(last.role, strip_form(last.content)))

    @cached_property
    def digest(self) -> str:
        """Digest of the body without `stream` and `stream_options`.

        A stream has the same content.
        """
        return _digest(self._data, "stream", "stream_options")

    @cached_property
    def question_digest(self) -> str:
        """Digest without the response format, in field and messages.

        The content does not depend on the format.
        """
        if self.properties is None:
            return self.digest
        messages = [
            *self._data["messages"][:-1],
            {**self._data["messages"][-1], "content": self.plain_messages[-1].content},
        ]
        return _digest(
            {**self._data, "messages": messages}, "stream", "stream_options", "response_format"
        )


def _digest(data: Mapping[str, Any], *without: str) -> str:
    fields = {name: value for name, value in data.items() if name not in without}
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def system_text(messages: Sequence[RequestMessage]) -> str:
    """Return the text of all system messages, joined with newlines."""
    return "\n".join(
        message.content for message in messages if message.role in ("system", "developer")
    )


def parse_request(body: bytes, *, in_responses: bool = False) -> ChatRequest:
    """Parse a request body of chat completions, or of the Responses API.

    Raise only `BadRequest`.
    """
    try:
        data = orjson.loads(body)
        if not isinstance(data, dict):
            raise BadRequest("the request body must be a JSON object")
        if in_responses:
            data = _convert_to_chat(data)
        request = ChatRequest.model_validate(data)
        request._data = data
        _ = request.digest  # the encoder's limit of nesting is lower than the decoder's
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
        raise BadRequest(f"the request body is not valid JSON: {error}") from None
    except ValidationError as error:
        first_error = error.errors()[0]
        name = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in first_error["loc"]
        )
        name = name.removeprefix(".")
        shown = repr(first_error["input"])
        if len(shown) > 80:
            shown = f"{shown[:77]}..."
        raise BadRequest(f"'{name}': {first_error['msg']}, not {shown}") from None
    return request


IM_START, IM_END = 257, 258
# A byte that is only part of a character has no text of its own.
_TEXTS = {
    IM_END: "<|im_end|>",
    **{byte: chr(byte) if byte < 128 else "\N{REPLACEMENT CHARACTER}" for byte in range(256)},
}
_DIGITS = range(ord("0"), ord("9") + 1)
_NO_DIGIT = 0.02  # share of non-digit tokens in the probability that the sampled digit leaves


def make_prompt_ids(messages: Sequence[RequestMessage]) -> list[int]:
    """Return the token ids of the conversation in ChatML, with the beginning of the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [
            IM_START,
            *make_completion_ids(f"{message.role}\n{message.content}", stopped=True),
            *b"\n",
        ]
    return [*ids, IM_START, *b"assistant\n"]


def make_completion_ids(text: str, *, stopped: bool) -> list[int]:
    """Return the token ids of an answer, with the ending token if the model stopped by itself."""
    ids = [*text.encode("utf-8", "replace")]
    if stopped:
        ids.append(IM_END)
    return ids


def make_logprob_entries(
    digest: str, index: int, ids: Sequence[int], alternatives: int
) -> list[dict[str, Any]]:
    """Return the protocol's entry for each token: its logprob, a function of request and choice.

    With alternatives, also its text, and for a digit the likeliest tokens at its position, itself
    first: a judge's probabilities are needed for scores only.
    """
    rng = make_generator(index, digest, "logprobs")
    entries: list[dict[str, Any]] = []
    for token in ids:
        value = -0.01 - 3.0 * rng.random()
        if not alternatives:
            entries.append({"logprob": value})
        elif token in _DIGITS:
            top = _digit_alternatives(token, 0.9 + 0.1 * value)
            entries.append({**top[0], "top_logprobs": top[:alternatives]})
        else:
            entries.append({"token": _TEXTS[token], "logprob": value, "top_logprobs": []})
    return entries


def _digit_alternatives(token: int, mass: float) -> list[dict[str, Any]]:
    """Return the tokens at a digit's position, likeliest first.

    The digit has this mass, and its neighbours share the rest.
    """
    neighbours = [
        (digit, share) for digit, share in ((token + 1, 0.7), (token - 1, 0.3)) if digit in _DIGITS
    ]
    remainder = (1 - mass) * (1 - _NO_DIGIT) / sum(share for _, share in neighbours)
    shares = [(token, mass), *((digit, remainder * share) for digit, share in neighbours)]
    return [{"token": _TEXTS[digit], "logprob": math.log(share)} for digit, share in shares]


_PIECE = re.compile(r"\w+|[^\w\s]")


def make_completion(
    request: ChatRequest, texts: Sequence[str], *, cached: int | None = None
) -> dict[str, Any]:
    """Make the response to a request with these choices, each cut to the request's `max_tokens`.

    If not `None`, `cached` is reported as the number of cached prompt tokens. The response depends
    only on the arguments: the id comes from the request's digest, and `created` is 0.
    """
    choices: list[dict[str, Any]] = []
    used = 0
    for index, text in enumerate(texts):
        content, count, short = cut_text(text, request.max_tokens)
        used += count
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": content},
            "logprobs": None,
            "finish_reason": "length" if short else "stop",
        }
        ids = []
        if request.return_token_ids or request.logprobs:
            ids = make_completion_ids(content, stopped=not short)
        if request.return_token_ids:
            choice["token_ids"] = ids
        if request.logprobs:
            choice["logprobs"] = {
                "content": make_logprob_entries(request.digest, index, ids, request.top_logprobs)
            }
        choices.append(choice)
    prompt = sum(len(message.content) // 4 + 4 for message in request.messages)
    details, prompt_fields = {}, {}
    if cached is not None:
        details["prompt_tokens_details"] = {"cached_tokens": min(cached, prompt)}
    if request.return_token_ids:
        prompt_fields["prompt_token_ids"] = make_prompt_ids(request.messages)
    return {
        **prompt_fields,
        "id": f"chatcmpl-{request.digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": used,
            "total_tokens": prompt + used,
            **details,
        },
    }


def make_error(status: int, message: str) -> bytes:
    """Make an error in the format that OpenAI clients read."""
    if status == 429:
        kind = "rate_limit_error"
    elif status >= 500:
        kind = "server_error"
    else:
        kind = "invalid_request_error"
    return orjson.dumps(
        {"error": {"message": message, "type": kind, "param": None, "code": str(status)}}
    )


def cut_text(text: str, max_tokens: int | None) -> tuple[str, int, bool]:
    """Cut a text after `max_tokens` words and punctuation marks.

    Return the text, their number, and whether any were cut off.
    """
    count, end = 0, 0
    for piece in _PIECE.finditer(text):
        if count == max_tokens:
            return text[:end], count, True
        count, end = count + 1, piece.end()
    return text, count, False


def _convert_to_chat(data: dict[str, Any]) -> dict[str, Any]:
    """Convert a request of the Responses API to a chat request."""
    items = data.get("input")
    instructions = data.get("instructions")
    if not isinstance(items, str | list) or not items:
        raise BadRequest("'input' must be a non-empty string or list")
    if data.get("stream"):
        raise BadRequest("'stream' must be false: the stand-in streams chat completions only")
    messages = []
    if instructions is not None:
        messages.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise BadRequest(f"'input[{index}]' must be an object")
        kind = item.get("type", "message")
        if kind == "function_call_output":
            messages.append({"role": "tool", "content": item.get("output")})
        elif kind == "message":  # skips reasoning and tool calls
            messages.append({"role": item.get("role"), "content": item.get("content")})
    return {
        "model": data.get("model"),
        "messages": messages,
        "temperature": data.get("temperature"),
        "max_tokens": data.get("max_output_tokens"),
        "seed": data.get("seed", _parse_nemo_gym_seed(data.get("metadata"))),
    }


def _parse_nemo_gym_seed(metadata: Any) -> Any:
    """Return a rollout's seed.

    NeMo Gym's `num_repeats_add_seed` writes it as JSON into a field of the metadata.
    """
    try:
        return orjson.loads(metadata["extra_body"])["seed"]
    except (TypeError, KeyError, IndexError, orjson.JSONDecodeError):
        return None


def convert_to_responses(completion: dict[str, Any]) -> dict[str, Any]:
    """Convert a chat completion with one choice to a response of the Responses API."""
    (choice,), usage = completion["choices"], completion["usage"]
    name = completion["id"].removeprefix("chatcmpl-")
    status, incomplete_details = "completed", None
    if choice["finish_reason"] == "length":
        status = "incomplete"
        incomplete_details = {"reason": "max_output_tokens"}
    part = {"type": "output_text", "text": choice["message"]["content"], "annotations": []}
    message = {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "incomplete_details": incomplete_details,
        "error": None,
        "model": completion["model"],
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {
                "cached_tokens": usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
            },
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


Json = dict[str, Any]

_WORD = re.compile(r"\s*\S+|\s+")
_OF_CHUNKS = ("id", "created", "model")
_DONE = b"data: [DONE]\n\n"


def make_events(completion: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """Return the events of a streamed completion.

    Args:
        completion: the response without `stream`.
        include_usage: whether to add an event with its usage, if it has one.
    """
    head = {**{name: completion[name] for name in _OF_CHUNKS}, "object": "chat.completion.chunk"}
    usage = {"usage": None} if include_usage else {}
    first = {name: completion[name] for name in ("prompt_token_ids",) if name in completion}
    lines = []
    for turn in zip_longest(*(list(_split_choice(choice)) for choice in completion["choices"])):
        for chunk in filter(None, turn):
            lines.append(_format_event({**head, **first, "choices": [chunk], **usage}))
            first = {}
    if include_usage and "usage" in completion:
        lines.append(_format_event({**head, "choices": [], "usage": completion["usage"]}))
    return [*lines, _DONE]


def _format_event(chunk: Json) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(chunk)


def _split_choice(choice: Json) -> Iterator[Json]:
    """Yield the parts of a choice: role, pieces of the text, the message's other fields, end."""
    message = dict(choice["message"])
    role = message.pop("role", "assistant")
    content = message.pop("content", None)
    logprobs = choice.get("logprobs")
    ids = choice.get("token_ids")
    entries = None if logprobs is None else logprobs["content"]
    yield _chunk(choice, {"role": role, "content": None if content is None else ""})
    offset = 0
    for piece in _split_text(content):
        end = offset + len(piece.encode("utf-8", "replace"))
        yield _chunk(
            choice, {"content": piece}, entries and entries[offset:end], ids and ids[offset:end]
        )
        offset = end
    for name, value in message.items():
        if value in (None, []):
            continue
        if name == "tool_calls":
            value = [{"index": index, **call} for index, call in enumerate(value)]
        yield _chunk(choice, {name: value})
    other_fields = {
        name: value
        for name, value in choice.items()
        if name not in ("message", "logprobs", "token_ids")
    }
    yield {**_chunk(choice, {}, entries and entries[offset:], ids and ids[offset:]), **other_fields}


def _chunk(
    choice: Json,
    delta: Json,
    entries: Sequence[Json] | None = None,
    ids: Sequence[int] | None = None,
) -> Json:
    tokens = {"token_ids": list(ids or ())} if "token_ids" in choice else {}
    logprobs = {"content": list(entries)} if entries else None
    return {
        "index": choice["index"],
        "delta": delta,
        "logprobs": logprobs,
        "finish_reason": None,
        **tokens,
    }


def _split_text(content: object) -> list[str]:
    """Return the words of a text, each with the white space before it.

    Of a list, those of all parts.
    """
    if isinstance(content, list):
        return list(chain.from_iterable(_split_text(part["text"]) for part in content))
    if isinstance(content, str):
        return _WORD.findall(content)
    return []
