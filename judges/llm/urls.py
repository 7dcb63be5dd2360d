"""Endpoint URLs: splitting, validation, and removal of credentials."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PRIVATE_SUFFIXES = (
    *(".local", ".internal", ".intranet", ".private", ".lan", ".corp", ".home", ".home.arpa", ".localdomain"),
    *(".localhost", ".cluster", ".svc", ".consul"),
)
_VERSION = re.compile(r"/v\d")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


def without_credentials(text: str) -> str:
    """`text` without user names and passwords in its URLs."""
    return _CREDENTIALS.sub("", text)


def split_urls(value: str) -> list[str]:
    """The base URLs of a comma-separated setting."""
    return [url.strip() for url in value.split(",") if url.strip()]


def check_urls(value: str) -> str:
    """`value`, if it is one or more http(s) URLs with commas between.

    Raises:
        ValueError: it is not; the message repeats no password.
    """
    urls = split_urls(value)
    for url in urls:
        if not _is_url(url):
            shown = without_credentials(url)
            raise ValueError(f"{shown!r} is not a URL; expected something like http://localhost:8000/v1")
    if not urls:
        raise ValueError("no URL given; expected something like http://localhost:8000/v1")
    return value


def _is_url(url: str) -> bool:
    if not url.isprintable() or " " in url:  # the parser drops line breaks, and with them a name of another host
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:  # a port that is no number or out of range
        return False


def is_public(url: str) -> bool:
    """Whether a URL's host may be anywhere on the internet, so that an endpoint there is sure to want a key.

    Not public are addresses that are not global (this machine, private networks, carrier-grade NAT), names without a
    dot, and names under a suffix that only private networks use. Nothing is looked up: a name under a public suffix is
    public, whatever it resolves to.
    """
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    try:
        return ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." in host and not host.endswith(_PRIVATE_SUFFIXES)


def with_version(base_url: str) -> str | None:
    """The base URL with `/v1`, where its path names no version of the API; `None` where it does."""
    parts = urlsplit(base_url)
    if _VERSION.search(parts.path):
        return None
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], f"{parts.path.rstrip('/')}/v1", "", ""))


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def same_host(first: str, second: str) -> bool:
    """Whether all URLs of two settings have the same host."""
    return len({urlsplit(url).hostname for url in split_urls(first) + split_urls(second)}) == 1
