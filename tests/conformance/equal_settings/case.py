"""A command whose settings are resolved, and the keys that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "MINE", "OTHER")
VARIABLES = {name: f"value-of-{name}" for name in KEYS}
"""What commands find in their environment."""


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        name: unique.
        words: behind `judgegym`.
        files: what its folder holds, beside rows.
        unset: variables that it does not find.
        shows_config: what `--show_config` prints is written, too.
    """

    name: str
    words: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    shows_config: bool = True
