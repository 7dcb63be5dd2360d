"""Built-in prompts of the judges, one text file each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@lru_cache
def load(name: str) -> str:
    """Return the text of `judges/prompts/<name>.txt`, without the newline at its end.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    return (
        resources.files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
    )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace a template's placeholders in one pass; a placeholder in a value stays text.

    >>> fill("{query} {score} {other}", {"query": "{score}", "score": "4"})
    '{score} 4 {other}'

    Args:
        template: a prompt.
        values: the values by placeholder name.
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def find_placeholders(template: str) -> set[str]:
    """Return the names of a template's placeholders."""
    return {*_PLACEHOLDER.findall(template)}
