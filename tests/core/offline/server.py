"""What the tests of the stand-in share: requests, and a server inside the test's own event loop."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from judgegym.offline import process
from judgegym.offline.process import StandInSettings
from judgegym.offline.request import ChatRequest, parse_request
from judgegym.offline.server import StandInServer


def request_of(messages: Sequence[Any] | str, **fields: Any) -> ChatRequest:
    """A request with these messages, or with one user message of this text."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return parse_request(orjson.dumps({"model": "some-model", "messages": messages, **fields}))


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[str]:
    """Serves with these settings inside the running loop; gives the root URL."""
    listener = process.listen("127.0.0.1", 0)
    url = process.make_url(listener).removesuffix("/v1")
    async with StandInServer(StandInSettings(**settings)).serving(listener):
        yield url
