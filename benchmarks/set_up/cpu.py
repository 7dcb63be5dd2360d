"""The CPU time of a command."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def cpu_seconds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """User and system CPU of a command and of those that it waited for."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            said = output.read().decode(errors="replace")
            raise SystemExit(f"{said}\n{' '.join(command)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime
