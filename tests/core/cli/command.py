"""Runs `judgegym` as a user does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.command import Ended, Started

PROGRAM = "python -m judgegym"


def judgegym(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, fresh: bool = False
) -> Ended:
    """The command in a process of its own, run to its end."""
    with Started("-m", "judgegym", *words, cwd=cwd, env=env, fresh=fresh) as started:
        return started.ended()
