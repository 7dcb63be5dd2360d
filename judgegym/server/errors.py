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


class NotYetError(Exception):
    """There is no result yet, and whoever asks again finds it; the message says why.

    Attributes:
        kind: the error's type, for programs.
        retry_after_s: seconds after which to ask again.
    """

    def __init__(self, kind: str, message: str, retry_after_s: int) -> None:
        """Describe the error; see the class for the meaning of each argument."""
        super().__init__(message)
        self.kind, self.retry_after_s = kind, retry_after_s
