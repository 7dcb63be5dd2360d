"""The page at `/`: judge a prompt and a response, and see the last hundred judgments."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from judgegym.server.service.messages import ServerResponse

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'"
)


@lru_cache
def page() -> ServerResponse:
    """The page. It contains no data: it requests them with the token that the user enters."""
    html = resources.files("judgegym.server.service").joinpath("templates/page.html").read_bytes()
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return ServerResponse(200, html, {"Content-Type": "text/html; charset=utf-8", **headers})
