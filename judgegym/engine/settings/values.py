"""Values that can be written in more than one way, and constants: bundled files, names of the stand-ins."""

from __future__ import annotations

from pathlib import Path

from judgegym.llm import wire

_PACKAGE = Path(__file__).parents[2]
SAMPLES = _PACKAGE / "data" / "samples"
BUNDLED_TOKENIZER = _PACKAGE / "environments" / "rollouts" / "tokenizers" / "bytes"

STAND_IN_JUDGE = "offline-judge"
STAND_IN_POLICY = "offline-policy"
"""The models of the offline stand-ins."""


def comma_separated(value: object) -> object:
    """A list from `a,b` or from a JSON list; any other value as it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return wire.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]
