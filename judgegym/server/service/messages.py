"""A request and a response of the reward server, as every binding gives and takes them."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field

from judgegym.llm import wire
from judgegym.llm.wire import JSON

_JSON: Mapping[str, str] = {"Content-Type": "application/json"}


class BrokenBodyError(Exception):
    """The body ends early, or is not framed as its headers say."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request whose body may not have arrived yet.

    Attributes:
        method: in capitals.
        path: without the query and without the prefix at which the server is mounted; percent-encoded, as it was sent.
        headers: looked up by names in small letters.
        body: the whole body, or its parts as they arrive. The parts raise `BrokenBodyError` for a body that cannot be
            read to its end, and `ConnectionResetError` if the caller leaves. Nothing is read before a caller is known
            and a body is wanted.
        address: the server's own address at which it arrived; `None` where that was checked before listening.
        client: the name of the caller's token; `None` where no token is needed.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | AsyncIterable[bytes] = b""
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
