"""What each `run.log` begins with: the version, the command, and the settings that differ from their defaults."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable

from judgegym.judges.config.sources import ConfigLine
from judgegym.judges.config.version import package_version

_LONGEST_VALUE = 300


def log_heading(command: str, settings: Iterable[ConfigLine], *, is_resumed: bool) -> list[str]:
    """The lines; keys are masked in the settings, as in `--show_config`.

    Args:
        command: what is run.
        settings: those that differ from their defaults.
        is_resumed: an earlier run goes on.
    """
    how = "resumed" if is_resumed else "begun"
    python = f"Python {platform.python_version()}, process {os.getpid()}"
    first = f"{how}: {command}, judgegym {package_version()}, {python}; settings that are not defaults:"
    return [first, *(f"{line.name}: {_short(line.value)}  [{line.source}]" for line in settings)]


def _short(value: str) -> str:
    """A value in one line."""
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]} … ({len(value)} characters)"
