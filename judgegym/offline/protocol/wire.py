"""The JSON of the chat completions protocol: answers and errors."""

import re
from collections.abc import Sequence
from typing import Any

import orjson

from judgegym.offline.protocol import tokens
from judgegym.offline.protocol.request import ChatRequest

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
        ids = tokens.completion_ids(content, stopped=not short) if request.return_token_ids or request.logprobs else []
        if request.return_token_ids:
            choice["token_ids"] = ids
        if request.logprobs:
            entries = tokens.logprob_entries(request.digest, index, ids, request.top_logprobs)
            choice["logprobs"] = {"content": entries}
        choices.append(choice)
    prompt = sum(len(message.content) // 4 + 4 for message in request.messages)
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": min(cached, prompt)}}
    prompt_ids = {"prompt_token_ids": tokens.prompt_ids(request.messages)} if request.return_token_ids else {}
    return {
        **prompt_ids,
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
