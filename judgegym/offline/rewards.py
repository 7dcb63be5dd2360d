"""The stand-in as a scalar reward model, with the responses of vLLM, SGLang and OpenRLHF.

A number is the logit of a text's merit as the stand-in's judges compute it, so that its sigmoid is
from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from judgegym.offline.answers import Opinion, compute_merit, measure_quality
from judgegym.offline.request import BadRequest

PATHS = ("/classify", "/score", "/pooling", "/get_reward")
_CHARACTERS_PER_TOKEN = 4
_LEAST = 1e-3
"""Lowest merit that has a logit; the highest is 1 minus this."""


def make_reward_response(path: str, body: bytes, opinion: Opinion | None = None) -> bytes:
    """Make the response to a request to one of `PATHS`; an `opinion` replaces the merits.

    Raises:
        BadRequest: the request lacks the fields of such a server.
    """
    try:
        request = orjson.loads(body)
        pairs = _read_pairs(path, request)
        merits = [compute_merit(measure_quality(response, prompt)) for prompt, response in pairs]
        if opinion is not None:
            merits = [min(max(opinion([""])[""], _LEAST), 1.0 - _LEAST) for _ in pairs]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"{path}: not a request to a reward model: {error!r}") from None
    tokens = sum(len(prompt) + len(response) for prompt, response in pairs) // _CHARACTERS_PER_TOKEN
    return orjson.dumps(
        _make_response(path, request, [math.log(share / (1.0 - share)) for share in merits], tokens)
    )


def _read_pairs(path: str, request: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return prompts and responses; if a conversation is one text, its prompt is unknown."""
    if path == "/score":
        return [*zip(_as_list(request["text_1"]), _as_list(request["text_2"]), strict=False)]
    if messages := request.get("messages"):
        return [
            ("\n".join(message["content"] for message in messages[:-1]), messages[-1]["content"])
        ]
    name = "text" if "text" in request else "input"
    if path == "/get_reward":
        name = "query"
    return [("", text) for text in _as_list(request[name])]


def _as_list(value: str | Sequence[str]) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return value


def _make_response(
    path: str, request: Mapping[str, Any], values: Sequence[float], tokens: int
) -> object:
    if path == "/get_reward":
        return {"rewards": values, "scores": values}
    if "text" in request:
        return [
            {"embedding": [value], "meta_info": {"prompt_tokens": tokens // len(values)}}
            for value in values
        ]
    if request.get("use_activation", True):
        values = [1.0 / (1.0 + math.exp(-value)) for value in values]
    data: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        if path == "/score":
            data.append({"index": index, "score": value})
        elif path == "/classify":
            data.append({"index": index, "probs": [value], "label": "LABEL_0", "num_classes": 1})
        else:
            data.append({"index": index, "data": [value]})
    return {
        "object": "list",
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
