"""Values of settings that can be written in more than one way, and the paths of the bundled files."""

from __future__ import annotations

from pathlib import Path

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
