"""The YAML in which cards are written: a text of several lines is a block, a figure is one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class OneLine(dict[str, Any]):
    """A mapping that is written in one line."""


class _CardDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and figures in one line each."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not text.replace("\n", "").isprintable():
        style = '"'  # other forms change tabs and unusual line separators
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _write_one_line(dumper: yaml.SafeDumper, values: OneLine) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", values, flow_style=True)


_CardDumper.add_representer(str, _write_text)
_CardDumper.add_representer(OneLine, _write_one_line)


def write_yaml(values: Mapping[str, Any]) -> str:
    """Return values as YAML."""
    return yaml.dump(
        dict(values), Dumper=_CardDumper, sort_keys=False, allow_unicode=True, width=100
    )
