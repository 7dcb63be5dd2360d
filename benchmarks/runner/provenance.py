"""Where and when a row of the table was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_TABLE = "benchmarks/RESULTS.md"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The machine, the time and the commit."""

    machine: str
    cores: int
    date: str
    commit: str

    @classmethod
    def now(cls) -> Provenance:
        """Of this moment and this checkout."""
        usable = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        machine = f"{_cpu()}, {platform.system()}, Python {platform.python_version()}"
        return cls(machine, usable, f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M}", _commit())


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _commit() -> str:
    """The commit, and whether files of the checkout differ from it; the table itself does not count."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = [
        line for line in _git("status", "--porcelain").splitlines() if not line.endswith(_TABLE)
    ]
    return f"{commit or 'unknown'}{' + changes' if changed else ''}"


def _git(*words: str) -> str:
    try:
        return subprocess.run(
            ["git", *words], cwd=_ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return ""
