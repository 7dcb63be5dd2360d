"""The errors that end a request: one with a status code, a type and a message for the caller, one of the core."""

from __future__ import annotations

from collections.abc import Mapping


class RequestError(Exception):
    """Answer the request with an error: status code, type and message."""

    def __init__(
        self,
        code: int,
        kind: str,
        message: str,
        *,
        is_unread: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the error.

        Args:
            code: the status code.
            kind: the error's type, for programs.
            message: what was wrong and what was expected.
            is_unread: a part of the body stays unread, so that the connection must close.
            headers: headers of the response, beside those that every error of this code has.
        """
        super().__init__(message)
        self.code, self.kind, self.message, self.is_unread = code, kind, message, is_unread
        self.headers: Mapping[str, str] = headers or {}


class OverloadError(Exception):
    """The limit of pending judgments is reached."""
