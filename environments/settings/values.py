"""Values of settings that can be written in more than one way, and the paths of the bundled files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from judges.llm import wire

_PACKAGE = Path(__file__).parents[1]
SAMPLES = _PACKAGE / "data" / "samples"
BUNDLED_TOKENIZER = _PACKAGE / "rollouts" / "tokenizers" / "bytes"


def comma_separated(value: object) -> object:
    """A list from `a,b` or from a JSON list; any other value as it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return wire.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def text_or_file(value: object) -> object:
    """The text of a file for `@path`, byte for byte; any other value as it is."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).expanduser().read_bytes().decode("utf-8")  # `read_text` would change the newlines
    except OSError as error:
        raise ValueError(f"{value[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{value[1:]} is not UTF-8 text") from error


TextOrFile = Annotated[str, BeforeValidator(text_or_file)]
"""A text, or `@path` for the text of a file."""
