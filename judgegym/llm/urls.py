"""Endpoint URLs: validation, a first connection, and removal of secrets.

Secrets in a URL are user names, passwords, and all query values except those of a few names that
providers use for versions and deployments. Secrets in a request are the values of fields whose name
looks like that of a secret.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

from judgegym.llm.wire import JSON

_HANDSHAKE_S = 5.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PRIVATE_SUFFIXES = (
    *(
        ".local",
        ".internal",
        ".intranet",
        ".private",
        ".lan",
        ".corp",
        ".home",
        ".home.arpa",
        ".localdomain",
    ),
    *(".localhost", ".cluster", ".svc", ".consul"),
)
_VERSION = re.compile(r"/v\d")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(?<=\w)://[^\s?#\"'<>]*\?[^\s#\"'<>]*")
_VALUE = re.compile(r"(?P<name>[^?&=;,]+)=(?P<value>[^&;,]*)")
_SHOWN_IN_A_QUERY = frozenset(
    {"api-version", "api_version", "version", "deployment", "model", "region", "stream"}
)
_NAMES_A_SECRET = re.compile(
    r"(api|access|secret|private|subscription|auth|bearer)[-_ "
    r"]?key|^key$|secret|passw|credential|authorization"
    r"|((^|[-_ ])(api|auth|access|bearer|id|refresh|session|hf|user)[-_ "
    r"]?|^)token$|signature|^sig$|^auth$|cookie",
    re.IGNORECASE,
)
BLANK = "***"
"""Replaces a secret."""
_SHORTEST_SECRET = 5
"""Shorter values, such as a key `none`, would be blanked within other words."""
_PLACEHOLDERS = frozenset(
    {
        *(
            "empty",
            "dummy",
            "fake",
            "placeholder",
            "no-key",
            "no-key-required",
            "sk-no-key-required",
            "not-needed",
        ),
        *("not-used", "unused", "local", "ollama", "lm-studio", "vllm", "sglang"),
    }
)
"""Keys, in lower case, for local servers whose clients must send one; they are no secrets."""
_PART = 8
"""A secret's beginning or end of this many characters is blanked, too."""


def strip_quotes(text: str) -> str:
    """Remove white space and quotes around a text, left by `.env` files and copied lines."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        return text[1:-1].strip()
    return text


def check_model_name(value: str) -> str:
    """Return a model's name without white space and quotes around it.

    Raises:
        ValueError: nothing is left, or it has a line break or another invisible character.
    """
    name = strip_quotes(value)
    if not name:
        raise ValueError(
            f"{value!r} is not a model's name; expected the name by which the endpoint serves it"
        )
    if not name.isprintable():
        raise ValueError(
            f"{value!r} has a character that cannot be in a model's name, such as a line break"
        )
    return name


def redact_credentials(text: str) -> str:
    """Remove user names, passwords and query values from URLs, except harmless ones.

    Such as `api-version`.
    """
    if "://" not in text:
        return text
    return _QUERY.sub(lambda match: _VALUE.sub(_blank_value, match[0]), _CREDENTIALS.sub("", text))


def _blank_value(match: re.Match[str]) -> str:
    if match["name"].lower() in _SHOWN_IN_A_QUERY:
        return match[0]
    return f"{match['name']}={BLANK}"


def redact_secret_fields(value: JSON, name: str = "") -> JSON:
    """Blank the texts and numbers whose field name looks like that of a secret."""
    if isinstance(value, Mapping):
        return {key: redact_secret_fields(item, key) for key, item in value.items()}
    if isinstance(value, str):
        if value and _NAMES_A_SECRET.search(name):
            return BLANK
        return redact_credentials(value)
    if isinstance(value, Sequence):
        return [redact_secret_fields(item, name) for item in value]
    return value


def secrets_in_url(url: str) -> Iterator[str]:
    """Yield the secrets in a URL: its `user:password`, and the secret values of its query."""
    credentials = (
        (url.partition("://")[2] or url).partition("/")[0].rpartition("@")[0]
    )  # a proxy's may lack a scheme
    if credentials:
        plain = unquote(credentials)
        yield from (credentials, plain, b64encode(plain.encode()).decode())
        yield from filter(None, (credentials.partition(":")[2], plain.partition(":")[2]))
    for name, value in parse_qsl(urlsplit(url).query):
        if name.lower() not in _SHOWN_IN_A_QUERY:
            yield value


def secrets_in_fields(value: JSON, name: str = "") -> Iterator[str]:
    """Yield the values that `redact_secret_fields` blanks, and the secrets in URLs."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets_in_fields(item, key)
    elif isinstance(value, str):
        if _NAMES_A_SECRET.search(name):
            yield value
        elif "://" in value:
            yield from secrets_in_url(value)
    elif isinstance(value, Sequence):
        for item in value:
            yield from secrets_in_fields(item, name)


def check_not_blank(value: JSON) -> None:
    """Raise `ValueError` if a value is `BLANK`, copied from a file, which has no secrets."""
    if BLANK in set(secrets_in_fields(value)):
        raise ValueError(f"a value is {BLANK}: secrets are not written to files; give it again")


def redact_secret(text: str, secret: str) -> str:
    """Remove a secret from a text: as it is, URL-encoded, and its parts from 8 characters on.

    Texts that are too short for a secret, and placeholders for a missing key, are not removed.
    """
    if len(secret) < _SHORTEST_SECRET or secret.lower() in _PLACEHOLDERS:
        return text
    quoted = quote(secret, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), quoted)
    for form in dict.fromkeys((secret, quoted, quote(secret), quote_plus(secret), lower)):
        text = text.replace(form, BLANK)
        if len(form) < 2 * _PART:
            continue
        for end in range(len(form) - 1, _PART - 1, -1) if form[:_PART] in text else ():
            text = text.replace(form[:end], BLANK)
        for start in range(1, len(form) - _PART + 1) if form[-_PART:] in text else ():
            text = text.replace(form[start:], BLANK)
    return text


def split_urls(value: str) -> list[str]:
    """Return the base URLs of a comma-separated setting."""
    return [url.strip() for url in value.split(",") if url.strip()]


def check_urls(value: str) -> str:
    """Return `value` if it is one or more http(s) URLs, separated by commas.

    Raises:
        ValueError: it is not; the message contains no password.
    """
    urls = split_urls(value)
    for url in urls:
        if not _is_url(url):
            shown = redact_credentials(url)
            raise ValueError(
                f"{shown!r} is not a URL; expected something like http://localhost:8000/v1"
            )
        if BLANK in secrets_in_url(url):
            shown = redact_credentials(url)
            raise ValueError(
                f"{shown}: {BLANK} stands for a secret that is not written to files; give it again"
            )
    if not urls:
        raise ValueError("no URL given; expected something like http://localhost:8000/v1")
    return value


def _is_url(url: str) -> bool:
    if (
        not url.isprintable() or " " in url
    ):  # the parser drops line breaks, and with them a name of another host
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:  # a port that is no number or out of range
        return False


def is_public(url: str) -> bool:
    """Return whether a URL's host may be anywhere on the internet, so that it surely needs a key.

    Addresses that are not global (this machine, private networks, carrier-grade NAT), names without
    a dot, and names under a suffix of private networks are not public. Nothing is resolved: a name
    under a public suffix is public, whatever its address.
    """
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    try:
        return ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." in host and not host.endswith(_PRIVATE_SUFFIXES)


def add_version(base_url: str) -> str | None:
    """Return the base URL with `/v1`; `None` if its path names a version already."""
    parts = urlsplit(base_url)
    if _VERSION.search(parts.path) or not parts.scheme.startswith("http"):
        return None
    path = parts.path.rstrip("/") + "/v1"
    return redact_credentials(urlunsplit(parts._replace(path=path, fragment="")))


def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def have_same_host(first: str, second: str) -> bool:
    """Return whether all URLs of two settings have the same host."""
    return len({urlsplit(url).hostname for url in split_urls(first) + split_urls(second)}) == 1


async def speaks_tls(url: str) -> bool:
    """Return whether a URL's port completes a TLS handshake, whatever its certificate.

    No request is sent.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return await asyncio.wait_for(can_connect(url, context), _HANDSHAKE_S)
    except asyncio.TimeoutError:
        return False


async def can_connect(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Return whether a connection to a URL's host can be opened; it is closed at once."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
