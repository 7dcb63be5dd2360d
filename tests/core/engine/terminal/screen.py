"""Standard output or error as a terminal of a given width, and what it shows without its control sequences."""

from __future__ import annotations

import io
import re
import sys

import pytest

_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        """Everything that was written, without control sequences."""
        return _SEQUENCES.sub("", self.getvalue())


def screen(
    patch: pytest.MonkeyPatch, stream: str, *, width: int, term: str = "xterm-256color"
) -> Screen:
    """Make a stream a terminal."""
    found = Screen()
    patch.setattr(sys, stream, found)
    patch.setenv("TERM", term)
    patch.setenv("COLUMNS", str(width))
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        patch.delenv(name, raising=False)
    return found
