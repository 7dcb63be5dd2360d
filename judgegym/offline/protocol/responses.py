"""OpenAI's Responses API, as far as agents need it that take text: a request becomes a chat request, its answer theirs.

The stand-in calls no tools and streams no responses. Source: OpenAI's API reference; NeMo Gym 0.4 reads the answers.
"""

from typing import Any

import orjson

from judgegym.offline.protocol.request import BadRequest

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
