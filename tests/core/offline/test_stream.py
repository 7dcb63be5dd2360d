"""What `stream: true` gives: the answer of the same request without it, in events."""

from collections.abc import Sequence
from typing import Any

import aiohttp
import orjson
import pytest

from tests.core.offline.server import serving
from tests.faults.further_faults import BROKEN, LAST_WORD, NO_COMPLETION, faults

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Describe a lighthouse in winter."}],
}
STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

UNREADABLE = ("huge_body", "bad_gzip", "wrong_type")
"""Too long to read, not to be read, and another one at each attempt."""


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream, of which each line is an event or empty, and the last one says that it is done."""
    lines = body.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [orjson.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def joined(chunks: Sequence[dict[str, Any]], index: int) -> dict[str, Any]:
    """A choice as a client puts it together."""
    found: dict[str, Any] = {"content": None, "entries": [], "token_ids": [], "finish_reason": None}
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            assert found["finish_reason"] is None, "nothing comes after the end of a choice"
            for name, value in choice["delta"].items():
                found[name] = (found.get(name) or "") + value if isinstance(value, str) else value
            found["entries"] += (choice["logprobs"] or {"content": []})["content"]
            found["token_ids"] += choice.get("token_ids", [])
            found["finish_reason"] = choice["finish_reason"]
    return found


async def posted(root: str, body: dict[str, Any]) -> tuple[aiohttp.ClientResponse, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(root + "/v1/chat/completions", json=body) as response,
    ):
        return response, await response.read()


@pytest.mark.parametrize(
    "fields", [{}, {"max_tokens": 5}, {"logprobs": True, "return_token_ids": True}]
)
async def test_the_events_make_up_the_answer_of_the_same_request(fields: dict[str, Any]) -> None:
    thinking = {"role": "system", "content": "Think in <think> tags."}
    body = {**BODY, "messages": [thinking, *BODY["messages"]], "n": 3, **fields}
    async with serving() as root:
        _, whole = await posted(root, body)
        response, streamed = await posted(root, {**body, **STREAM})
    right, chunks = orjson.loads(whole), chunks_of(streamed)
    assert response.status == 200 and response.content_type == "text/event-stream"
    assert response.headers.get("Transfer-Encoding") == "chunked"
    assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in chunks} == {
        (right["id"], "chat.completion.chunk", "m")
    }
    for choice in right["choices"]:
        found = joined(chunks, choice["index"])
        assert {name: found[name] for name in choice["message"]} == choice["message"]
        assert found["content"].startswith("<think>")
        assert (
            found["finish_reason"]
            == choice["finish_reason"]
            == ("length" if "max_tokens" in fields else "stop")
        )
        assert found["entries"] == ((choice["logprobs"] or {}).get("content") or [])
        assert found["token_ids"] == choice.get("token_ids", [])
    assert [chunk.get("prompt_token_ids") for chunk in chunks if "prompt_token_ids" in chunk] == (
        [right["prompt_token_ids"]] if "return_token_ids" in fields else []
    )
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == right["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


@pytest.mark.parametrize(
    "kind", ["429", *(kind for kind in NO_COMPLETION if kind not in UNREADABLE)]
)
async def test_fault_without_completion_comes_before_the_stream(kind: str) -> None:
    async with serving(faults=faults({kind: 1})) as root, aiohttp.ClientSession() as session:
        found = []
        for more in ({}, STREAM):
            async with session.post(
                root + "/v1/chat/completions", json={**BODY, **more}, allow_redirects=False
            ) as response:
                found.append((response.status, response.content_type, await response.read()))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [*BROKEN, *LAST_WORD])
async def test_broken_completion_is_broken_within_the_stream(kind: str) -> None:
    async with serving(faults=faults({kind: 1})) as root:
        if kind == "no_finish":  # not the first answer
            await posted(root, BODY)
        _, whole = await posted(root, {**BODY, "n": 2})
        response, streamed = await posted(root, {**BODY, "n": 2, **STREAM})
    choices, chunks = orjson.loads(whole)["choices"], chunks_of(streamed)
    assert response.content_type == "text/event-stream"
    assert {each["index"] for chunk in chunks for each in chunk["choices"]} == {
        each["index"] for each in choices
    }
    if kind == "duplicate_choices":  # two that say to be the same one
        return
    for choice in choices:
        found = joined(chunks, choice["index"])
        message = dict(choice["message"])
        calls = message.pop("tool_calls", None)
        assert {name: found.get(name) for name in message} == message
        assert found["finish_reason"] == choice["finish_reason"]
        if calls:
            assert found["tool_calls"] == [{"index": 0, **calls[0]}]
    errors = [each["error"] for chunk in chunks for each in chunk["choices"] if "error" in each]
    assert len(errors) == (2 if kind == "choice_error" else 0)
