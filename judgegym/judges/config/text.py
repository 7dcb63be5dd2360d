"""Texts that a setting holds or reads from a file, and their digests."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

_LONGEST_NAME = 1024


def text_or_file(value: object) -> object:
    """The text of a file for `@path`; any other value as it is.

    Raises:
        ValueError: the file cannot be read, or is not UTF-8; or the text is the name of a file, without the `@`.
    """
    if not isinstance(value, str):
        return value
    if not value.startswith("@"):
        if _is_file(value):
            raise ValueError(f"there is a file of this name; to read it write @{value}")
        return value
    try:
        return Path(value[1:]).expanduser().read_bytes().decode("utf-8")  # byte for byte, newlines included
    except OSError as error:
        raise ValueError(f"{value[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{value[1:]} is not UTF-8 text") from error


def _is_file(text: str) -> bool:
    """Whether a text is the name of a file, with an ending: a rubric of one such word is a mistake."""
    if "\n" in text or "." not in text or len(text) > _LONGEST_NAME:
        return False
    try:
        return Path(text).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):  # no name of a file at all, or no home
        return False


TextOrFile = Annotated[str, BeforeValidator(text_or_file)]
"""A text, or `@path` for the text of a file."""


def prompt_digest(prompt: str) -> str:
    """The SHA-256 digest of a prompt's UTF-8 bytes, the same as `sha256sum` gives for its file.

    >>> prompt_digest("Judge.")[:19]
    'sha256:581f76da77db'
    """
    return f"sha256:{hashlib.sha256(prompt.encode('utf-8', 'surrogatepass')).hexdigest()}"
