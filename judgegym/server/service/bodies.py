"""Request bodies: read within limits of time and size, parsed as JSON, validated by a model; else a `RequestError`.

Tokens of callers: where they are read, compared in constant time, each with a name for the log.

A token is a bearer token; or, for trainers that can set a URL and no header, the user or the password of the URL
(`http://TOKEN@host:8400/…`, sent as Basic), or the beginning of its path (`http://host:8400/token/TOKEN/…`).
`without_token` removes the last one from what is shown.

A request and a response of the reward server, without the framework that carries them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.server.answers import RequestError
from judgegym.server.settings import RewardServerSettings

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


BodyT = TypeVar("BodyT", bound=BaseModel)

_SHOWN_ERRORS = 5
_ENCODINGS: Mapping[str, int] = {"identity": 0, "gzip": 31, "deflate": 15}
"""The known encodings of bodies, with zlib's name for each (window bits)."""


async def read_object(
    request: ServerRequest, settings: RewardServerSettings, *, max_mb: float | None = None
) -> Mapping[str, JSON]:
    """The body as a JSON object.

    Args:
        request: the request, whose body is still compressed.
        settings: with the limits of time and size.
        max_mb: the largest body in megabytes, compressed or not; by default, that of the settings.

    Raises:
        RequestError: it is late, too large, incomplete, encoded in an unknown way, or no JSON object.
        ConnectionResetError: the caller has left.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _ENCODINGS:
        reason = f"Content-Encoding {encoding[:40]!r} is not known; expected {', '.join(_ENCODINGS)}"
        raise RequestError(415, "unsupported", reason, is_unread=True)
    limit_mb = settings.max_body_mb if max_mb is None else max_mb
    limit = int(limit_mb * 1024 * 1024)
    length = request.headers.get("content-length", "")
    try:
        if "expect" in request.headers and length.isdecimal() and int(length) > limit:
            raise TooLargeError  # the caller has not begun to send it
        data = _decompressed(await request.body.read(limit, settings.body_timeout), encoding, limit)
    except asyncio.TimeoutError:
        reason = f"the body did not come within {settings.body_timeout:g} seconds"
        raise RequestError(408, "timeout", reason, is_unread=True) from None
    except TooLargeError:
        setting = "--max_body_mb" if max_mb is None else "--max_aggregate_mb"
        reason = f"the body is larger than {limit_mb:g} MB ({setting})"
        raise RequestError(413, "too_large", reason, is_unread=True) from None
    except zlib.error as error:
        reason = "the body could not be read: it ends early, or is not compressed as its Content-Encoding says"
        raise RequestError(400, "malformed", reason, is_unread=True) from error
    try:
        value = wire.loads(data)  # accepts lone surrogates: trainers cut texts at tokens
    except ValueError as error:
        raise RequestError(400, "malformed", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(422, "invalid", f"expected a JSON object, found {type(value).__name__}")
    return value


def _decompressed(data: bytes, encoding: str, limit: int) -> bytes:
    """The body without its encoding.

    Raises:
        zlib.error: it is not compressed so.
        TooLargeError: it is larger than `limit`.
    """
    if encoding == "identity":
        return data
    reader = zlib.decompressobj(_ENCODINGS[encoding])
    plain = reader.decompress(data, limit + 1)
    if len(plain) > limit:
        raise TooLargeError
    if not reader.eof:
        raise zlib.error("the compressed body ends early")
    return plain


def validated(model: type[BodyT], raw: Mapping[str, JSON]) -> BodyT:
    """The object as an instance of `model`.

    Raises:
        RequestError: it is not valid; the message names the fields.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise RequestError(422, "invalid", "; ".join(_explained(error.errors(), model, raw))) from error


def _explained(errors: Sequence[ErrorDetails], model: type[BaseModel], raw: JSON) -> list[str]:
    """The errors by place. Where a field may be of several kinds, those of the kind that fits best are told."""
    reasons: dict[tuple[str | int, ...], list[str]] = {}
    for wrong in errors:
        known = reasons.setdefault(_place(wrong, raw), [])
        message = wrong["msg"].removeprefix("Value error, ")
        if message not in known:
            known.append(message)
    deepest = [place for place in reasons if not any(_is_within(other, place) for other in reasons)]
    explained = []
    for place in deepest[:_SHOWN_ERRORS]:
        name = ".".join(map(str, place)) or "body"
        if len(place) == 1 and any(wrong["type"] == "extra_forbidden" and wrong["loc"] == place for wrong in errors):
            explained.append(f"{name}: unknown field; expected {', '.join(model.model_fields)}")
        else:
            explained.append(f"{name}: {' or '.join(reasons[place])}")
    return explained


def _place(wrong: ErrorDetails, raw: JSON) -> tuple[str | int, ...]:
    """Where in the body the error is: pydantic's place without the names of the kinds that it has tried."""
    place: list[str | int] = []
    at: JSON = raw
    last = len(wrong["loc"]) - 1
    for number, part in enumerate(wrong["loc"]):
        if isinstance(at, Mapping) and part in at:
            at = at[str(part)]
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            at = at[part]
        elif not (number == last and wrong["type"] == "missing"):
            continue
        place.append(part)
    return tuple(place)


def _is_within(inner: tuple[str | int, ...], outer: tuple[str | int, ...]) -> bool:
    return len(inner) > len(outer) > 0 and inner[: len(outer)] == outer


PREFIX = "token"
"""The first part of a path whose second part is a token."""

_IN_PATH = re.compile(rf"(?<=/{PREFIX}/)[^/]+")


def without_token(path: str) -> str:
    """A path as it may be shown."""
    return _IN_PATH.sub("…", path)


class Access:
    """The known tokens. Without any, all requests are allowed."""

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        """Accept these tokens, by name."""
        self._tokens = {name: token.get_secret_value().encode() for name, token in tokens.items()}

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return not self._tokens

    def caller(self, authorization: str | None, in_path: str | None = None) -> str | None:
        """The name of the token in an `Authorization` header or in a path; `None` if neither has a known one.

        All tokens are compared, so that the time taken reveals nothing about them.
        """
        known_name: str | None = None
        for presented in _presented(authorization, in_path):
            for name, token in self._tokens.items():
                if hmac.compare_digest(presented, token) and presented:
                    known_name = name
        return known_name


def _presented(authorization: str | None, in_path: str | None) -> Iterator[bytes]:
    """What may be a token."""
    if in_path is not None:
        yield in_path.encode("utf-8", "surrogateescape")
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "bearer":
        yield given.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(given.strip(), validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return
        yield user
        yield password
