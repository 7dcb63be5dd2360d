"""The service behind aiohttp's low-level server: no router and no middleware, since the service has its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from aiohttp import HttpVersion11, web

from judgegym.server.service.messages import BrokenBodyError, ServerRequest
from judgegym.server.service.opened import Service
from judgegym.server.service.respond import responder

_IDLE_S = 120.0
"""How long a connection may be idle between two requests; trainers keep theirs."""


def server_of(service: Service, under_way: set[asyncio.Task[Any]]) -> web.Server:
    """The protocol factory of a service's connections.

    Args:
        service: answers the requests.
        under_way: holds the task of each request while it is answered.
    """
    respond = responder(service)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        content = request.content
        # Most bodies arrive with their heads: those are not waited for.
        is_whole = content.is_eof() and content.exception() is None
        body = content.read_nowait() if is_whole else _parts(request)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        under_way.add(task)
        try:
            given = await respond(ServerRequest(request.method, request.rel_url.raw_path, request.headers, body))
        finally:
            under_way.discard(task)
        response = web.Response(body=given.body, status=given.status, headers=given.headers)
        if given.closes:
            response.force_close()
        return response

    # Who leaves is told apart from who waits: a response that is sent again takes the place that it had in its cohort.
    return web.Server(
        handle, access_log=None, auto_decompress=False, keepalive_timeout=_IDLE_S, handler_cancellation=True
    )


async def _parts(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body as it arrives; a caller that waits for permission to send it gets it now."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # of the response nothing has been sent
    try:
        while part := await request.content.readany():
            yield part
    except web.RequestPayloadError as error:
        raise BrokenBodyError from error
