"""The quick reader of the usual body reads what the general reader does, or leaves the body to it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from judgegym.llm.responses.finish_reasons import FinishRules
from judgegym.llm.responses.outcome import (
    ChatSuccess,
    Habits,
    RawResponse,
    parse_response,
    read_body,
    read_plain,
)
from judgegym.llm.wire import dumps

ODD: list[Any] = [
    None,
    "",
    " \n",
    "\u200b",
    "text",
    "stop",
    "STOP",
    "length",
    0,
    1,
    -3,
    1.5,
    True,
    [],
    ["x"],
    {},
    {"a": 1},
]
NO_COUNTS: list[Any] = [
    {},
    {"prompt_tokens": 9},
    {"completion_tokens": 10**10},
    {"prompt_tokens": "7"},
]
CACHED: list[Any] = [
    {"cached_tokens": 4},
    {"cached_tokens": 99},
    {"cache_write_tokens": 3, "cached_tokens": True},
]
TOKENS: list[Any] = [
    [1, 2],
    [-1],
    {"content": [{"token": "1", "logprob": -0.5, "id": 5, "top_logprobs": []}]},
]
FIELDS: dict[tuple[str, ...], list[Any]] = {
    ("error",): [*ODD, {"message": "busy", "code": 429}],
    ("prompt_token_ids",): [*ODD, *TOKENS],
    ("model",): [*ODD, "served"],
    ("system_fingerprint",): ODD,
    ("usage",): [*ODD, *NO_COUNTS],
    ("usage", "prompt_tokens_details"): [*ODD, *CACHED],
    ("usage", "prompt_cache_hit_tokens"): ODD,
    ("choices",): [*ODD, [None], [{}, {}]],
    ("choices", "0"): ODD,
    ("choices", "0", "message"): ODD,
    ("choices", "0", "finish_reason"): [*ODD, "tool_calls", "content_filter", "odd_ending"],
    ("choices", "0", "error"): ODD,
    ("choices", "0", "logprobs"): [*ODD, *TOKENS],
    ("choices", "0", "token_ids"): [*ODD, *TOKENS],
    ("choices", "0", "judgegym_tokens"): [*ODD, [{"token": "1", "top_logprobs": []}]],
    ("choices", "0", "message", "content"): [*ODD, [{"type": "text", "text": "part"}]],
    **{
        ("choices", "0", "message", name): ODD
        for name in ("reasoning_content", "reasoning", "refusal", "tool_calls", "function_call")
    },
}
ABSENT = object()


def plain() -> dict[str, Any]:
    message = {"role": "assistant", "content": "My verdict is 7."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    return {"id": "1", "model": "m", "choices": [choice], "usage": usage}


def change(body: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at a path, or leave it out, as far as the path leads."""
    place: Any = body
    for name in path[:-1]:
        place = place[int(name)] if isinstance(place, list) and place else place
        place = place.get(name) if isinstance(place, dict) else place
    if isinstance(place, list) and path[-1] == "0":
        place[:1] = [] if value is ABSENT else [copy.deepcopy(value)]
    elif isinstance(place, dict) and value is ABSENT:
        place.pop(path[-1], None)
    elif isinstance(place, dict):
        place[path[-1]] = copy.deepcopy(value)


def bodies() -> Iterator[Any]:
    """The usual body with each change, and with several of them."""
    changes = [(path, value) for path, values in FIELDS.items() for value in (ABSENT, *values)]
    rng = random.Random(51)
    for several in [[each] for each in changes] + [
        rng.sample(changes, rng.randint(2, 4)) for _ in range(600)
    ]:
        body = plain()
        for path, value in sorted(several, key=lambda each: len(each[0])):
            change(body, path, value)
        yield body
    yield from ODD


def habits(earlier: list[str | None]) -> Habits:
    """The habits of an endpoint whose answers so far have ended so."""
    learnt = Habits("http://h/v1", FinishRules(frozenset({"odd_ending"})))
    for reason in earlier:
        learnt.learn([{"finish_reason": reason}])
    return learnt


@pytest.mark.parametrize("earlier", [[], ["stop"], ["length"], [None, "stop", "odd"]], ids=str)
def test_both_readers_read_the_same_and_learn_the_same(earlier: list[str | None]) -> None:
    read = 0
    for body in bodies():
        response, (quick, general, either) = (
            RawResponse(200, dumps(body)),
            (habits(earlier) for _ in range(3)),
        )
        expected = read_body(body, response, general)
        outcome = read_plain(body, quick)
        if outcome is None:
            assert quick == habits(earlier), body
        else:
            read += 1
            assert (outcome, quick) == (expected, general), body
        assert (parse_response(response, either), either) == (expected, general), body
    assert (read > 100) == ("stop" in earlier)


VLLM = {
    "reasoning_content": None,
    "refusal": None,
    "annotations": None,
    "audio": None,
    "function_call": None,
}


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ({}, {}),
        ({"refusal": None, "annotations": []}, {"logprobs": None}),
        ({**VLLM, "tool_calls": []}, {"logprobs": None, "stop_reason": None, "token_ids": None}),
    ],
    ids=["plain", "openai", "vllm"],
)
def test_the_usual_bodies_are_read_quickly(message: dict[str, Any], choice: dict[str, Any]) -> None:
    body = plain()
    body["choices"][0] |= choice
    body["choices"][0]["message"] |= message
    assert isinstance(read_plain(body, habits(["stop"])), ChatSuccess)
