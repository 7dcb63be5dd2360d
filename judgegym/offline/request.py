"""A chat completion request: parses and checks the fields that the stand-in uses.

Tokens as the stand-in samples them: bytes, with ChatML's three specials behind them, and made-up logprobs.

The same ids as those of the tokenizer that is bundled with the environments, so that an offline run needs no other.

The JSON of the chat completions protocol: answers and errors.

OpenAI's Responses API, as far as agents need it that take text: a request becomes a chat request, its answer theirs.

The stand-in calls no tools and streams no responses. Source: OpenAI's API reference; NeMo Gym 0.4 reads the answers.

An answer as server-sent events: what `stream: true` asks for.

Guarantees: the pieces of a text make up the text of the answer without `stream`, and with `logprobs` or
`return_token_ids` the entries and ids of a piece are those of its bytes. The first event of a choice has its role, the
last one its finish reason; events of several choices come in turn. `stream_options.include_usage` adds an event with
the usage and no choices. The last event is `[DONE]`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, NoReturn

import orjson

from judgegym.judges.core.seeding import generator
from judgegym.judges.parsing.verdict_parser import without_form

_LARGEST = 2**63 - 1
_BOUNDS: dict[str, tuple[Any, int, int]] = {
    "temperature": (int | float, 0, 2),
    "seed": (int, -_LARGEST, _LARGEST),
    "n": (int, 1, 128),
    "max_tokens": (int, 1, _LARGEST),
    "max_completion_tokens": (int, 1, _LARGEST),
    "top_logprobs": (int, 0, 20),
}


class BadRequest(ValueError):
    """A request that cannot be answered; the message is sent to the client and names the wrong field."""


class RequestMessage(NamedTuple):
    """One message of the conversation, its text parts joined."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid request.

    Attributes:
        digest: of the whole body but for `stream` and `stream_options`: how an answer is sent does not change it.
        question: the same without the form of the answer, in `response_format` and in the messages: what is answered
            does not depend on the form.
        asked: the messages without that form.
        properties: the fields of the object that is wanted, in their order; `None` where a text is.
        stream: whether the answer is wanted as events.
        include_usage: whether one of them has the usage.
        top_logprobs: 0 where no `logprobs` are asked for.
    """

    messages: tuple[RequestMessage, ...]
    model: str
    temperature: float
    seed: int | None
    n: int
    max_tokens: int | None
    digest: str
    question: str
    asked: tuple[RequestMessage, ...]
    properties: tuple[str, ...] | None
    stream: bool
    include_usage: bool
    return_token_ids: bool
    logprobs: bool
    top_logprobs: int


def system_text(messages: Sequence[RequestMessage]) -> str:
    """The text of all system messages, joined with newlines."""
    return "\n".join(message.content for message in messages if message.role in ("system", "developer"))


def parse_request(body: bytes) -> ChatRequest:
    """Read a request body; raises `BadRequest` (and nothing else). Unknown fields count in the digest only."""
    try:
        data = orjson.loads(body)
        canonical = _canonical(data, "stream", "stream_options")
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
        # The encoder has a lower limit of nesting than the decoder.
        raise BadRequest(f"the request body is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest("the request body must be a JSON object")
    model, messages, logprobs = data.get("model"), data.get("messages"), data.get("logprobs") is True
    if not isinstance(model, str) or not model:
        _fail("model", "a non-empty string", model)
    if not isinstance(messages, list) or not messages:
        _fail("messages", "a non-empty list", messages)
    stream, include_usage = _stream(data)
    numbers = {name: _number(name, data.get(name)) for name in _BOUNDS}
    read = tuple(_message(f"messages[{index}]", entry) for index, entry in enumerate(messages))
    properties = _properties(data.get("response_format"))
    asked = read if properties is None else (*read[:-1], read[-1]._replace(content=without_form(read[-1].content)))
    return ChatRequest(
        messages=read,
        model=model,
        temperature=1.0 if numbers["temperature"] is None else float(numbers["temperature"]),
        seed=numbers["seed"],
        n=numbers["n"] or 1,
        max_tokens=numbers["max_completion_tokens"] or numbers["max_tokens"],
        digest=_digest(canonical),
        question=_digest(canonical if properties is None else _question(data, asked[-1].content)),
        asked=asked,
        properties=properties,
        stream=stream,
        include_usage=include_usage,
        return_token_ids=data.get("return_token_ids") is True,
        logprobs=logprobs,
        top_logprobs=numbers["top_logprobs"] or 0 if logprobs else 0,
    )


def _canonical(data: object, *without: str) -> bytes:
    kept = {name: value for name, value in data.items() if name not in without} if isinstance(data, dict) else data
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def _digest(canonical: bytes) -> str:
    return hashlib.sha256(canonical).hexdigest()


def _question(data: dict[str, Any], last: str) -> bytes:
    """What is asked: the request without the form of its answer, with this content of the last message."""
    messages = [*data["messages"][:-1], {**data["messages"][-1], "content": last}]
    return _canonical({**data, "messages": messages}, "stream", "stream_options", "response_format")


def _properties(wanted: Any) -> tuple[str, ...] | None:
    """The fields of the object that a `response_format` asks for."""
    if not isinstance(wanted, dict | None):
        _fail("response_format", "an object or null", wanted)
    kind = "text" if wanted is None else wanted.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        _fail("response_format.type", "text, json_object or json_schema", kind)
    if wanted is None or kind != "json_schema":
        return None
    named = wanted.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        _fail("response_format.json_schema.schema.properties", "an object with a field or more", properties)
    return tuple(properties)


def _stream(data: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the answer is wanted as events, and whether one of them has the usage."""
    stream, options = data.get("stream"), data.get("stream_options")
    if not isinstance(stream, bool | None):
        _fail("stream", "true, false or null", stream)
    if not isinstance(options, dict | None):
        _fail("stream_options", "an object or null", options)
    if options is not None and not stream:
        _fail("stream_options", "left out where 'stream' is not true", options)
    include_usage = (options or {}).get("include_usage")
    if not isinstance(include_usage, bool | None):
        _fail("stream_options.include_usage", "true, false or null", include_usage)
    return bool(stream), bool(include_usage)


def _message(name: str, entry: object) -> RequestMessage:
    role, content = (entry.get("role"), entry.get("content")) if isinstance(entry, dict) else (None, None)
    if not isinstance(role, str):
        _fail(f"{name}", "an object whose 'role' is a string", entry)
    if isinstance(content, list):
        texts = [part.get("text", "") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str | None):
        _fail(f"{name}.content", "a string, a list of parts or null", content)
    return RequestMessage(role, content or "")


def _number(name: str, value: Any) -> Any:
    kind, low, high = _BOUNDS[name]
    if value is not None and (isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high):
        _fail(name, f"{'an integer' if kind is int else 'a number'} from {low} to {high}", value)
    return value


def _fail(name: str, expected: str, value: object) -> NoReturn:
    shown = repr(value)
    raise BadRequest(f"'{name}' must be {expected}, not {shown if len(shown) <= 80 else shown[:77] + '...'}")


IM_START, IM_END = 257, 258
# A byte that is only part of a character has no text of its own.
_TEXTS = {
    IM_END: "<|im_end|>",
    **{byte: chr(byte) if byte < 128 else "\N{REPLACEMENT CHARACTER}" for byte in range(256)},
}
_DIGITS = range(ord("0"), ord("9") + 1)
_NO_DIGIT = 0.02  # the share of tokens that are no digit in what the sampled digit leaves over


def prompt_ids(messages: Sequence[RequestMessage]) -> list[int]:
    """The conversation in ChatML, with the beginning of the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [IM_START, *completion_ids(f"{message.role}\n{message.content}", stopped=True), *b"\n"]
    return [*ids, IM_START, *b"assistant\n"]


def completion_ids(text: str, *, stopped: bool) -> list[int]:
    """The answer, and the token that ends it where the model stopped by itself."""
    return [*text.encode("utf-8", "replace"), *([IM_END] if stopped else [])]


def logprob_entries(digest: str, index: int, ids: Sequence[int], alternatives: int) -> list[dict[str, Any]]:
    """The protocol's entry for each token: its logprob, a function of the request and the choice.

    With alternatives, also its text, and for a digit the likeliest tokens at its place, itself being the first: scores
    are what a judge's probabilities are wanted for.
    """
    rng = generator(index, digest, "logprobs")
    entries: list[dict[str, Any]] = []
    for token in ids:
        value = -0.01 - 3.0 * rng.random()
        if not alternatives:
            entries.append({"logprob": value})
        elif token in _DIGITS:
            top = _digits(token, 0.9 + 0.1 * value)
            entries.append({**top[0], "top_logprobs": top[:alternatives]})
        else:
            entries.append({"token": _TEXTS[token], "logprob": value, "top_logprobs": []})
    return entries


def _digits(token: int, mass: float) -> list[dict[str, Any]]:
    """The digits at the place of a digit, likeliest first: itself with this mass, and its neighbours with the rest."""
    neighbours = [(digit, share) for digit, share in ((token + 1, 0.7), (token - 1, 0.3)) if digit in _DIGITS]
    rest = (1 - mass) * (1 - _NO_DIGIT) / sum(share for _, share in neighbours)
    shares = [(token, mass), *((digit, rest * share) for digit, share in neighbours)]
    return [{"token": _TEXTS[digit], "logprob": math.log(share)} for digit, share in shares]


_PIECE = re.compile(r"\w+|[^\w\s]")


def completion(request: ChatRequest, texts: Sequence[str], *, cached: int | None = None) -> dict[str, Any]:
    """The answer to a request with these choices, each within the request's `max_tokens`.

    If not `None`, `cached` is told as the number of cached prompt tokens.
    It depends on the arguments alone: the id comes from the request's digest and `created` is 0.
    """
    choices: list[dict[str, Any]] = []
    used = 0
    for index, text in enumerate(texts):
        content, count, short = cut(text, request.max_tokens)
        used += count
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": content},
            "logprobs": None,
            "finish_reason": "length" if short else "stop",
        }
        ids = completion_ids(content, stopped=not short) if request.return_token_ids or request.logprobs else []
        if request.return_token_ids:
            choice["token_ids"] = ids
        if request.logprobs:
            entries = logprob_entries(request.digest, index, ids, request.top_logprobs)
            choice["logprobs"] = {"content": entries}
        choices.append(choice)
    prompt = sum(len(message.content) // 4 + 4 for message in request.messages)
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": min(cached, prompt)}}
    ids_of_prompt = {"prompt_token_ids": prompt_ids(request.messages)} if request.return_token_ids else {}
    return {
        **ids_of_prompt,
        "id": f"chatcmpl-{request.digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used, **details},
    }


def error(status: int, message: str) -> bytes:
    """An error in the shape that OpenAI clients read."""
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": str(status)}})


def cut(text: str, max_tokens: int | None) -> tuple[str, int, bool]:
    """The text cut after `max_tokens` words and punctuation marks, their number, and whether any were cut off."""
    count, end = 0, 0
    for piece in _PIECE.finditer(text):
        if count == max_tokens:
            return text[:end], count, True
        count, end = count + 1, piece.end()
    return text, count, False


_ROLES = {"function_call_output": "tool"}


def chat_body(body: bytes) -> bytes:
    """The body of the chat request that asks the same. Raises `BadRequest`."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the request body is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest("the request body must be a JSON object")
    given, instructions = data.get("input"), data.get("instructions")
    if not isinstance(given, str | list) or not given:
        raise BadRequest("'input' must be a non-empty string or list")
    if data.get("stream"):
        raise BadRequest("'stream' must be false: the stand-in streams chat completions only")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_message_json(place, item) for place, item in enumerate(items)]
    if instructions is not None:
        messages.insert(0, {"role": "system", "content": instructions})
    chat = {
        "model": data.get("model"),
        "messages": [message for message in messages if message is not None],
        "temperature": data.get("temperature"),
        "max_tokens": data.get("max_output_tokens"),
        "seed": data.get("seed", _seed_of_nemo_gym(data.get("metadata"))),
    }
    return orjson.dumps(chat)


def _message_json(place: int, item: Any) -> dict[str, Any] | None:
    """A message or a tool's output as a chat message; `None` for reasoning and calls."""
    if not isinstance(item, dict):
        raise BadRequest(f"'input[{place}]' must be an object")
    kind = item.get("type", "message")
    if kind in _ROLES:
        return {"role": _ROLES[kind], "content": item.get("output")}
    return {"role": item.get("role"), "content": item.get("content")} if kind == "message" else None


def _seed_of_nemo_gym(metadata: Any) -> Any:
    """The seed of a rollout, which NeMo Gym's `num_repeats_add_seed` writes as JSON into a field of the metadata."""
    try:
        return orjson.loads(metadata["extra_body"])["seed"]
    except (TypeError, KeyError, IndexError, orjson.JSONDecodeError):
        return None


def response(completion: dict[str, Any]) -> dict[str, Any]:
    """The answer in place of a chat completion with one choice."""
    (choice,), usage = completion["choices"], completion["usage"]
    name = completion["id"].removeprefix("chatcmpl-")
    is_short = choice["finish_reason"] == "length"
    status = "incomplete" if is_short else "completed"
    part = {"type": "output_text", "text": choice["message"]["content"], "annotations": []}
    message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": status, "content": [part]}
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if is_short else None,
        "error": None,
        "model": completion["model"],
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


Json = dict[str, Any]

_WORD = re.compile(r"\s*\S+|\s+")
_OF_CHUNKS = ("id", "created", "model")
_DONE = b"data: [DONE]\n\n"


def events(completion: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """The events of an answer.

    Args:
        completion: the answer as without `stream`.
        include_usage: whether to add an event with its usage, if it has any.
    """
    head = {**{name: completion[name] for name in _OF_CHUNKS}, "object": "chat.completion.chunk"}
    usage = {"usage": None} if include_usage else {}
    first = {name: completion[name] for name in ("prompt_token_ids",) if name in completion}
    written = []
    for turn in zip_longest(*(list(_chunks_of(choice)) for choice in completion["choices"])):
        for chunk in filter(None, turn):
            written.append(_event({**head, **first, "choices": [chunk], **usage}))
            first = {}
    if include_usage and "usage" in completion:
        written.append(_event({**head, "choices": [], "usage": completion["usage"]}))
    return [*written, _DONE]


def _event(chunk: Json) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(chunk)


def _chunks_of(choice: Json) -> Iterator[Json]:
    """The parts of one choice: its role, the pieces of its text, other fields of its message whole, and its end."""
    message = dict(choice["message"])
    role, content = message.pop("role", "assistant"), message.pop("content", None)
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    entries = None if logprobs is None else logprobs["content"]
    yield _chunk(choice, {"role": role, "content": None if content is None else ""})
    place = 0
    for piece in _pieces(content):
        end = place + len(piece.encode("utf-8", "replace"))
        yield _chunk(choice, {"content": piece}, entries and entries[place:end], ids and ids[place:end])
        place = end
    for name, value in message.items():
        if value not in (None, []):
            yield _chunk(choice, {name: _numbered(value) if name == "tool_calls" else value})
    rest = {name: value for name, value in choice.items() if name not in ("message", "logprobs", "token_ids")}
    yield {**_chunk(choice, {}, entries and entries[place:], ids and ids[place:]), **rest}


def _chunk(choice: Json, delta: Json, entries: Sequence[Json] | None = None, ids: Sequence[int] | None = None) -> Json:
    tokens = {"token_ids": list(ids or ())} if "token_ids" in choice else {}
    logprobs = {"content": list(entries)} if entries else None
    return {"index": choice["index"], "delta": delta, "logprobs": logprobs, "finish_reason": None, **tokens}


def _pieces(content: object) -> list[str]:
    """The words of a text, each with the white space before it; of a list of parts, those of all parts."""
    if isinstance(content, list):
        return [piece for part in content for piece in _pieces(part["text"])]
    return _WORD.findall(content) if isinstance(content, str) else []


def _numbered(calls: Sequence[Json]) -> list[Json]:
    return [{"index": index, **call} for index, call in enumerate(calls)]
