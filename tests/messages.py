"""A stand-in for Anthropic's Messages API: a real HTTP server whose texts an endpoint in OpenAI's form gives.

What arrives is validated by the request types of the `anthropic` package, what is sent by its
response models; neither
may have a field that they do not know. Its prefix cache is that of the documentation: it keeps what
a request marks with `cache_control` from the moment that its response begins, and counts four
characters as a token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from anthropic.types import Message
from anthropic.types.message_create_params import (
    MessageCreateParamsBase,
    MessageCreateParamsNonStreaming,
)
from pydantic import TypeAdapter

from tests.scripted import Json

_REQUESTS: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
_FIELDS = {*MessageCreateParamsBase.__annotations__, "stream"}
_OLDER = {"temperature", "top_p", "top_k"}
"""Fields that models before 2026 take, and that the types have no more."""
_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def check_request(body: Json) -> None:
    """Read all of a request by the types of the `anthropic` package."""
    assert body.keys() <= _FIELDS | _OLDER, body.keys() - _FIELDS
    read = _REQUESTS.validate_python(body)
    for message in [*read["messages"], {"content": read.get("system", [])}]:
        for block in message["content"]:
            assert block["type"] == "text" and block["text"].strip(), block


def message(
    *blocks: Json, stop_reason: str | None = "end_turn", model: str = "claude-of-test", **usage: int
) -> Json:
    """A message with these blocks, as the models of the `anthropic` package have it."""
    counts = {"input_tokens": 10, "output_tokens": 5, **usage}
    body: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(blocks),
    }
    return {**body, "stop_reason": stop_reason, "stop_sequence": None, "usage": counts}


def text(said: str) -> Json:
    return {"type": "text", "text": said, "citations": None}


def check_message(body: Json) -> None:
    """Read a message by the models of the `anthropic` package, which must know all of it."""
    read = Message.model_validate(body)
    assert not read.model_extra, read.model_extra
    for block, sent in zip(read.content, body["content"], strict=True):
        assert block.type == sent["type"] and not block.model_extra


class MessagesEndpoint:
    """Serves `POST /v1/messages` with the answers of an endpoint in OpenAI's form. Use with `async with`."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self.base_url = ""
        self.bodies: list[Json] = []
        self.usages: list[Json] = []
        self.headers: list[Mapping[str, str]] = []
        self._kept: set[bytes] = set()
        self.fault: AssertionError | None = None

    async def __aenter__(self) -> MessagesEndpoint:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/messages", self._serve)
        self._session = aiohttp.ClientSession()
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()
        if self.fault is not None:
            raise self.fault

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers)
        try:
            assert request.headers["anthropic-version"] and "Authorization" not in request.headers
            check_request(body)
        except (AssertionError, ValueError, KeyError) as error:
            self.fault = AssertionError(f"no request to this API: {error!r}")
            return self._error(400, repr(error))
        marks = _marks(body)
        read = max((size for digest, size in marks if digest in self._kept), default=0)
        asked = {"model": body["model"], "messages": _chat(body), "max_tokens": body["max_tokens"]}
        asked |= {name: body[name] for name in _OLDER & body.keys()}
        try:
            async with self._session.post(f"{self._behind}/chat/completions", json=asked) as answer:
                raw, status, waits = (
                    await answer.read(),
                    answer.status,
                    answer.headers.get("Retry-After"),
                )
        except (aiohttp.ClientError, OSError):  # it dropped the connection
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        self._kept |= {digest for digest, _ in marks}
        try:
            given = json.loads(raw)
        except ValueError:
            return web.Response(status=status, body=raw)
        if status != 200:
            return self._error(status, str(given.get("error", given)), waits)
        written = max((size for _, size in marks), default=0) - read
        whole = sum(len(part) for part in _parts(body)) // 4
        usage = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        sent = _message(given, body["model"], input_tokens=whole - read - written, **usage)
        self.usages.append(sent.get("usage", {}))
        return web.json_response(sent)

    def _error(self, status: int, said: str, waits: str | None = None) -> web.Response:
        error = {
            "type": "error",
            "error": {"type": _ERRORS.get(status, "api_error"), "message": said},
        }
        return web.json_response(
            error, status=status, headers={"Retry-After": waits} if waits else {}
        )


def _message(given: Any, model: str, **usage: int) -> Json:
    """The message of a completion; what is no whole completion comes without its fields, or with an error."""
    choice = (given.get("choices") or [{}])[0] if isinstance(given, dict) else {}
    said = choice.get("message") or {}
    if not choice or choice.get("error"):
        return {"type": "error", "error": {"type": "api_error", "message": "overloaded"}}
    content = said.get("content")
    content = (
        "".join(part.get("text", "") for part in content) if isinstance(content, list) else content
    )
    refused, thought = said.get("refusal"), said.get("reasoning") or said.get("reasoning_content")
    blocks = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    blocks += [text(content)] if content else []
    reason = choice.get("finish_reason")
    sent = message(
        *blocks,
        stop_reason="refusal" if refused else _STOPS.get(reason, reason),
        model=model,
        **usage,
    )
    if sent["stop_reason"] in _STOPS.values():
        check_message(sent)
    return sent


def _parts(body: Json) -> list[str]:
    turns: Sequence[Any] = [{"content": body.get("system", [])}, *body["messages"]]
    return [block["text"] for turn in turns for block in turn["content"]]


def _marks(body: Json) -> list[tuple[bytes, int]]:
    """Each beginning that a request marks: its digest, and its tokens."""
    found, so_far = list[tuple[bytes, int]](), ""
    for turn in [{"role": "system", "content": body.get("system", [])}, *body["messages"]]:
        so_far += f"\0{turn['role']}\0"
        for block in turn["content"]:
            so_far += block["text"]
            if block.get("cache_control"):
                found.append((hashlib.blake2b(so_far.encode()).digest(), len(so_far) // 4))
    return found


def _chat(body: Json) -> list[Json]:
    turns = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    return [
        {"role": turn["role"], "content": "".join(block["text"] for block in turn["content"])}
        for turn in [*turns, *body["messages"]]
    ]
