"""Tokens of callers: where they are read, compared in constant time, each with a name for the log.

A token is a bearer token; or, for trainers that can set a URL and no header, the user or the password of the URL
(`http://TOKEN@host:8400/…`, sent as Basic), or the beginning of its path (`http://host:8400/token/TOKEN/…`).
`without_token` removes the last one from what is shown.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterator, Mapping

from pydantic import SecretStr

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
