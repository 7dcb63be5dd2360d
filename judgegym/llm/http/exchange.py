"""One HTTP request to a replica: what is sent, its timeout, and how the response's body is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache

import aiohttp

from judgegym.llm import tracing, wire
from judgegym.llm.errors import FailureKind
from judgegym.llm.http.connector import CheckedConnector
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.providers.api import Api
from judgegym.llm.refusals.request_fields import FieldHabits
from judgegym.llm.responses.outcome import (
    AttemptFailure,
    Outcome,
    RawResponse,
    classify_exception,
    parse_other_response,
    parse_response,
)
from judgegym.llm.types import ChatSettings, Replica
from judgegym.llm.wire import JSON

_CONNECT_S = 30.0
_LONGEST_BODY = 128 * 1024 * 1024
_LONGEST_RESULTS = 1 << 30


def open_session() -> aiohttp.ClientSession:
    """Open an HTTP session for chat clients: no connection limit of its own, no cookies.

    Each replica knows the environment's proxy (`Replica.proxy`): with `trust_env` the session would
    look it up, and read `~/.netrc`, in a thread for every request.
    """
    return aiohttp.ClientSession(connector=CheckedConnector(), cookie_jar=aiohttp.DummyCookieJar())


class Exchange:
    """Sends one client's requests, each once; the first one opens the session.

    Attributes:
        shared: a shared session, which stays open; `None` for a session of its own.
    """

    def __init__(
        self,
        settings: ChatSettings,
        api: Api,
        fields: FieldHabits,
        session: aiohttp.ClientSession | None,
    ) -> None:
        """Prepare; the session is opened by the first request.

        Args:
            settings: have the timeouts.
            api: the model's API.
            fields: the request fields that the endpoint accepts.
            session: the shared session, if there is one.
        """
        self._settings, self._api, self._fields = settings, api, fields
        self.shared = self._session = session

    async def close(self) -> None:
        """Close the session, unless it is shared."""
        if self.shared is None and self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, replica: Replica, call: RequestRecord) -> Outcome:
        """Send a request once, and classify the response."""
        used_s = (
            0.0 if call.failure is None else call.elapsed()
        )  # a retry has what is left; 0 is no limit
        timeout_s = max(0.001, min(self._settings.timeout_s, self._settings.deadline_s - used_s))
        try:
            call.note_sent()
            response = await self._respond(replica, call, timeout_s)
        except (aiohttp.ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
            is_no_http = isinstance(
                error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError
            )
            if is_no_http and await replica.needs_tls():
                message = "none: the port speaks TLS, so its URL must begin with https://"
                return AttemptFailure(FailureKind.REJECTED, message)
            return classify_exception(error, timeout_s)
        if call.path is not None:
            return parse_other_response(response, call.read)
        return parse_response(response, replica.habits, self._api.response)

    async def _respond(
        self, replica: Replica, call: RequestRecord, timeout_s: float
    ) -> RawResponse:
        """Send a request once; raises what the HTTP client raises."""
        filled: dict[str, JSON] = {**(call.body or {}), "model": replica.endpoint.model}
        body: Mapping[str, JSON] = filled
        if call.path is None:
            body = self._api.request(self._fields.adapt_body(filled, call), call.cached)
            if self._api.is_in_process:
                return await self._api.send(body, replica.endpoint, timeout_s)
        if self._session is None:
            self._session = open_session()
        data, max_bytes = None if call.body is None else wire.dumps(body), _LONGEST_BODY
        headers: Mapping[str, str] = replica.headers
        if tracing.active is not None:
            headers = tracing.active.headers(headers)
        if call.upload is not None:
            data, headers = call.upload.data, {**headers, "Content-Type": call.upload.content_type}
            max_bytes = _LONGEST_RESULTS
        async with self._session.request(
            "GET" if data is None else "POST",
            replica.url if call.path is None else replica.endpoint.server_url(call.path),
            data=data,
            headers=headers,
            proxy=replica.proxy,
            timeout=_timeout(timeout_s),
            allow_redirects=False,  # a redirected POST would lose its body
        ) as response:
            data, headers = await _read_body(response, max_bytes), response.headers
            return RawResponse(
                response.status, data, headers.get("Retry-After"), headers.get("Location")
            )


@lru_cache(maxsize=16)  # all first attempts have the same
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_S)


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read the body of a response.

    Raises:
        ClientPayloadError: it is longer than `max_bytes`.
    """
    length = response.content_length
    if length is not None and length > max_bytes:
        raise aiohttp.ClientPayloadError(f"a body of {length} bytes")
    if length is not None and "Content-Encoding" not in response.headers:
        return await response.read()
    parts, size = [], 0  # it has no length, or one that is not that of the body
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise aiohttp.ClientPayloadError(f"a body of more than {max_bytes} bytes")
    return b"".join(parts)
