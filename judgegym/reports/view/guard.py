"""What every request must be, and what every response carries.

Guarantees: requests are answered only if they are addressed to this machine by one of its own names, so that a foreign
page that has made its name point here (DNS rebinding) reads nothing; nothing is answered to a page of another site, no
method but GET; and no response may be framed, sniffed, cached or read across origins.
"""

from __future__ import annotations

import re
from html import unescape
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_META_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"<>]*)">')
_POLICY_WITHIN = 20_000
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what is not a request of this machine's own browser."""
    if request.method != "GET":
        return web.Response(status=405, text="only GET is answered here\n", headers={"Allow": "GET"})
    reason = refusal(request.headers.getall("Host", []), request.headers.get("Sec-Fetch-Site"))
    if reason is not None:
        return web.Response(status=403, text=f"{reason}\n")
    return await handler(request)


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers before a response is sent; to one without a policy of its own one that allows nothing."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Content-Security-Policy", NOTHING)


def refusal(hosts: list[str], site: str | None) -> str | None:
    """Why a request is refused; `None` if it is not."""
    if len(hosts) != 1 or not is_own_name(hosts[0]):
        return "this server answers only to 127.0.0.1, [::1] and localhost"
    if site not in (None, "none", "same-origin", "same-site"):
        return "this server answers no page of another site"
    return None


def is_own_name(host: str) -> bool:
    """Whether a Host header names the loopback; any port may follow, because tunnels have others."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["name"].strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def policy_of(page: bytes) -> str | None:
    """The content security policy at the beginning of a document of `judgegym.reports.pages`; `None` without one."""
    match = _META_POLICY.search(page[:_POLICY_WITHIN])
    return None if match is None else unescape(match[1].decode("ascii", "replace"))


def html_response(page: bytes, status: int = 200) -> web.Response:
    """A document that was just made, with its own policy as a header, too."""
    return web.Response(
        body=page, status=status, content_type="text/html", charset="utf-8", headers=policy_header(policy_of(page))
    )


def policy_header(policy: str | None) -> dict[str, str]:
    """The header of a document's policy, which no frame may hold."""
    return {} if policy is None else {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
