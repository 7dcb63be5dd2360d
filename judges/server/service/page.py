"""The page at `/`: judge a prompt and a response, and see the last hundred judgments."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from aiohttp import web

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'"
)


async def handler(request: web.Request) -> web.StreamResponse:
    """The page. It contains no data: it requests them with the token that the user enters."""
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return web.Response(text=_html(), content_type="text/html", headers=headers)


@lru_cache
def _html() -> str:
    return resources.files("judges.server.service").joinpath("templates/page.html").read_text(encoding="utf-8")
