"""A scripted policy as an endpoint of OpenAI's Responses, in the test's own process."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


@asynccontextmanager
async def policy() -> AsyncIterator[str]:
    """Its base URL. It answers with the `says` of the request's metadata; `{n}` in it is the answer's number."""
    numbers = itertools.count()

    async def answer(request: web.Request) -> web.Response:
        says = (await request.json())["metadata"]["says"]
        usage = {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 5,
        }
        return web.json_response(
            {
                "id": "r1",
                "created_at": 1,
                "model": "policy",
                "object": "response",
                "output": [message(says.replace("{n}", str(next(numbers))))],
                "parallel_tool_calls": False,
                "tool_choice": "auto",
                "tools": [],
                "usage": usage,
            }
        )

    app = web.Application()
    app.router.add_post("/v1/responses", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1"))
