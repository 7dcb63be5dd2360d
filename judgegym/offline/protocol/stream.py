"""An answer as server-sent events: what `stream: true` asks for.

Guarantees: the pieces of a text make up the text of the answer without `stream`, and with `logprobs` or
`return_token_ids` the entries and ids of a piece are those of its bytes. The first event of a choice has its role, the
last one its finish reason; events of several choices come in turn. `stream_options.include_usage` adds an event with
the usage and no choices. The last event is `[DONE]`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import orjson

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
