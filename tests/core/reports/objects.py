"""Plain data as objects, of which a test reads the fields as attributes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def objects(value: Any) -> Any:
    """The same with a namespace for each mapping with words for keys."""
    if isinstance(value, dict) and all(str(key).isidentifier() for key in value):
        return SimpleNamespace(**{key: objects(each) for key, each in value.items()})
    if isinstance(value, list):
        return [objects(each) for each in value]
    return value
