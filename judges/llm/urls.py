"""Endpoint URLs: splitting, validation, and removal of credentials."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
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
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:  # a port that is no number or out of range
        return False


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def same_host(first: str, second: str) -> bool:
    """Whether all URLs of two settings have the same host."""
    return len({urlsplit(url).hostname for url in split_urls(first) + split_urls(second)}) == 1
