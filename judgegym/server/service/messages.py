"""A request and a response of the reward server, without the framework that carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from judgegym.llm import wire
from judgegym.llm.wire import JSON

_JSON: Mapping[str, str] = {"Content-Type": "application/json"}


class TooLargeError(Exception):
    """The body is larger than allowed."""


class Body(Protocol):
    """The body of a request, which may not have arrived yet."""

    async def read(self, limit: int, timeout_s: float) -> bytes:
        """Return the whole body. It is read once, and not before a caller is known and a body is wanted.

        Args:
            limit: most bytes.
            timeout_s: seconds within which it must arrive.

        Raises:
            asyncio.TimeoutError: it is late.
            TooLargeError: it is larger than `limit`.
            ConnectionResetError: the caller has left.
        """


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request whose body may not have arrived yet.

    Attributes:
        method: in capitals.
        path: without the query and without the prefix at which the server is mounted; percent-encoded, as it was sent.
        headers: looked up by names in small letters.
        body: reads the body.
        address: the server's own address at which it arrived; `None` where that was checked before listening.
        client: the name of the caller's token; `None` where no token is needed.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Body
    address: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A response.

    Attributes:
        status: the status code.
        body: the body; for HEAD it is not sent.
        headers: all but the length and those of the connection.
        closes: a part of the request's body stays unread, so that the connection must close.
        failed: why a response without an error holds no score; for the log, and not sent.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    failed: str | None = None


def json_response(
    value: JSON,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    closes: bool = False,
    failed: str | None = None,
) -> ServerResponse:
    """A response of JSON."""
    return ServerResponse(status, wire.dumps(value), {**_JSON, **headers} if headers else _JSON, closes, failed)
