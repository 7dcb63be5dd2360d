"""Presets of juries and cascades that were chosen from recorded runs, and how their settings are read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from judgegym.judges.config.explaining import text_or_file
from judgegym.judges.config.presets import load_yaml
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.document import write_file

YAML = frozenset({".yaml", ".yml"})


def write_preset(path: Path, judge: Mapping[str, object], said: str) -> None:
    """Write the settings of a judge for `judgegym score --config` and `judgegym evaluate prompts --config`.

    Args:
        path: the file.
        judge: its settings.
        said: what was measured, as a comment.
    """
    lines = "".join(f"# {line}\n" for line in said.splitlines())
    body = yaml.safe_dump({"env": dict(judge)}, sort_keys=False, allow_unicode=True, width=110)
    write_file(path, f"{lines}\n{body}".encode())


def rules_of(word: str, of: str) -> tuple[dict[str, JSON], list[str]]:
    """The settings `of_…` of a jury or a cascade, and the names of its members, from `@FILE` or the name of a rule.

    Args:
        word: `@settings.yaml`, or a rule of juries or of confidence.
        of: `jury` or `cascade`.

    Raises:
        SettingsError: the file holds no settings.
    """
    if not word.startswith("@"):
        return {"jury_rule" if of == "jury" else "cascade_confidence": word}, []
    try:
        read: Any = load_yaml(str(text_or_file(word)).encode())
    except (OSError, ValueError) as error:
        raise SettingsError(f"--{of} {word}: {error}") from None
    if not isinstance(read, dict):
        raise SettingsError(f"--{of} {word}: expected settings by name")
    found = read.get("env", read)
    names = found.get("judges" if of == "jury" else "cascade") or {}
    return {name: value for name, value in found.items() if name.startswith(f"{of}_")}, list(names)
