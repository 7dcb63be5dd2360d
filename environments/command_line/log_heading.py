"""What each `run.log` begins with: the version, the command, and the settings that differ from their defaults."""

from __future__ import annotations

import os
import platform
from typing import Any

from environments.base import JudgedEnv
from environments.command_line.arguments import config_lines
from environments.settings import EnvSettings
from environments.settings.verbs import Verb
from judges.config.sources import LoadedSettings
from judges.config.version import package_version

_LONGEST_VALUE = 300


def log_heading(
    env_type: type[JudgedEnv[Any, Any, Any]], loaded: LoadedSettings[EnvSettings[Any]], verb: Verb
) -> list[str]:
    """The lines; keys are masked in them as in `--show_config`."""
    how = "resumed" if loaded.settings.resume else "begun"
    python = f"Python {platform.python_version()}, process {os.getpid()}"
    first = f"{how}: {verb} {env_type.name}, judgegym {package_version()}, {python}; settings that are not defaults:"
    return [
        first,
        *(f"{line.name}: {_short(line.value)}  [{line.source}]" for line in config_lines(loaded, verb, "changed")),
    ]


def _short(value: str) -> str:
    """A value in one line."""
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]} … ({len(value)} characters)"
