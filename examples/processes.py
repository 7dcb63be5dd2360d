"""Helpers for examples that start processes: working directory, environment, free port."""

from __future__ import annotations

import os
import socket
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = "JUDGEGYM_"


def process_variables() -> dict[str, str]:
    """Return a process's environment variables, without JudgeGym's, which would override files."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
