"""OpenAI's Responses API, as far as agents need it that take text: a request becomes a chat request, its answer theirs.

The stand-in calls no tools and streams no responses. Source: OpenAI's API reference; NeMo Gym 0.4 reads the answers.

An answer as server-sent events: what `stream: true` asks for.

Guarantees: the pieces of a text make up the text of the answer without `stream`, and with `logprobs` or
`return_token_ids` the entries and ids of a piece are those of its bytes. The first event of a choice has its role, the
last one its finish reason; events of several choices come in turn. `stream_options.include_usage` adds an event with
the usage and no choices. The last event is `[DONE]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import orjson

from judgegym.offline.request import BadRequest

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
    messages = [_message(place, item) for place, item in enumerate(items)]
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


def _message(place: int, item: Any) -> dict[str, Any] | None:
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
