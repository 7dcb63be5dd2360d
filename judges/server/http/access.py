"""Bearer tokens: compared in constant time, each with a name for the log."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from pydantic import SecretStr

_SCHEME = "bearer"


class Access:
    """The known tokens. Without any, all requests are allowed."""

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        """Accept these tokens, by name."""
        self._tokens = {name: token.get_secret_value().encode() for name, token in tokens.items()}

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return not self._tokens

    def caller(self, authorization: str | None) -> str | None:
        """The name of the token in an `Authorization` header; `None` if it has no known token.

        All tokens are compared, so that the time taken reveals nothing about them.
        """
        scheme, _, given = (authorization or "").partition(" ")
        presented = given.strip().encode("utf-8", "surrogateescape") if scheme.lower() == _SCHEME else b""
        known_name: str | None = None
        for name, token in self._tokens.items():
            if hmac.compare_digest(presented, token) and presented:
                known_name = name
        return known_name
