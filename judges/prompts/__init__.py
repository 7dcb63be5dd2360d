"""The prompts, one text file each."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources


@lru_cache
def load(name: str) -> str:
    """The text of `judges/prompts/<name>.txt`, without the newline at its end.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    return resources.files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
