"""What the tests of the stand-in share: request builders and a server inside the test's own event loop."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from judges.offline import lifetime
from judges.offline.request import ChatRequest, parse_request
from judges.offline.server import ServerSettings, StandInServer

THREE = "Compare the two answers. End with one of [[A>B]], [[A=B]], [[B>A]]."
FIVE = "Compare the two answers. End with one of [[A>>B]], [[A>B]], [[A=B]], [[B>A]], [[B>>A]]."


def _battle(
    question: str, a: str, b: str, *, tag: str = "", notice: str = "", system: str = THREE
) -> list[dict[str, Any]]:
    user = (
        f"{notice}<|User Prompt{tag}|>\n{question}\n\n"
        f"<|The Start of Assistant A's Answer{tag}|>\n{a}\n<|The End of Assistant A's Answer{tag}|>\n\n"
        f"<|The Start of Assistant B's Answer{tag}|>\n{b}\n<|The End of Assistant B's Answer{tag}|>"
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _request(messages: list[dict[str, Any]] | str, **fields: Any) -> ChatRequest:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return parse_request(orjson.dumps({"model": "some-model", "messages": messages, **fields}))


@pytest.fixture(scope="session")
def battle() -> Callable[..., list[dict[str, Any]]]:
    """Builds the messages of an Arena-Hard judge prompt."""
    return _battle


@pytest.fixture(scope="session")
def five_labels() -> str:
    """A system prompt that asks for one of five labels."""
    return FIVE


@pytest.fixture(scope="session")
def request_of() -> Callable[..., ChatRequest]:
    """Builds a request from messages, or from the text of one user message."""
    return _request


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Serves with these settings inside the running loop; gives the root URL."""

    @asynccontextmanager
    async def serve(**settings: Any) -> AsyncIterator[str]:
        runner = StandInServer(ServerSettings(**settings)).runner()
        await runner.setup()
        listener = lifetime.listen("127.0.0.1", 0)
        await web.SockSite(runner, listener).start()
        try:
            yield lifetime.url_of(listener).removesuffix("/v1")
        finally:
            await runner.cleanup()

    return serve
