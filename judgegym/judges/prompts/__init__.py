"""The judges' built-in prompts, one text file each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources


@lru_cache
def load(name: str) -> str:
    """The text of `judges/prompts/<name>.txt`, without the newline at its end.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    return resources.files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template with all placeholders replaced in one pass, so that a placeholder in a value stays text.

    >>> fill("{query} {score}", {"{query}": "{score}", "{score}": "4"})
    '{score} 4'

    Args:
        template: a prompt.
        values: by placeholder, such as `{query}`.
    """
    placeholders = re.compile("|".join(map(re.escape, values)))
    return placeholders.sub(lambda match: values[match[0]], template)
