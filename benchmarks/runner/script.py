"""A script in a process of its own, with a time limit, and what it has measured."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measured import Measured, read
from benchmarks.runner.load import Load

_OPTION = "results_option("
_DEFINITION = "measured"
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a script.

    Attributes:
        script: its name.
        measured: its ratios, also those that it had reported before it failed.
        seconds: how long it ran.
        cpu_s: the CPU time of its process and of those that it waited for.
        problem: why it did not end well; empty if it did.
        load: what else the machine did.
    """

    script: str
    measured: tuple[Measured, ...] = ()
    seconds: float = 0.0
    cpu_s: float = 0.0
    problem: str = ""
    load: Load | None = None

    def under(self, load: Load) -> Outcome:
        """The outcome with this load."""
        return replace(self, load=load)


def names_of_scripts(folder: Path) -> list[str]:
    """The scripts that take `--results`, by name: modules, and packages with a `__main__`."""
    files = {
        ".".join(path.relative_to(folder).with_suffix("").parts): path
        for path in folder.rglob("*.py")
    }
    named = {
        name.removesuffix(".__main__"): path
        for name, path in files.items()
        if name.partition(".")[0] != "runner"
    }
    return sorted(
        name for name, path in named.items() if name != _DEFINITION and _OPTION in path.read_text()
    )


def run_script(name: str, limit: float, checkout: Path) -> Outcome:
    """Run a script; end it, and all that it has started, when the limit is over or this process is interrupted."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        results = Path(folder) / "results.jsonl"
        results.touch()
        command = [sys.executable, "-m", f"benchmarks.{name}", f"--results={results}"]
        process = subprocess.Popen(
            command, cwd=checkout, stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        cpu_s = None
        try:
            cpu_s = _wait(process, started + limit)
        finally:  # also at Ctrl-C
            cpu_s = (cpu_s or 0.0) + _end(process)
        problem = ""
        if time.monotonic() - started >= limit:
            problem = f"it was stopped after {limit:.0f} s"
        elif process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            sys.stderr.write(f"{said}\n")
            problem = (
                f"it failed with exit code {process.returncode}: "
                f"{said.rpartition(chr(10))[2] or 'no message'}"
            )
        measured = tuple(read(results))
    if not measured and not problem:
        problem = "it reported no ratio"
    return Outcome(name, measured, time.monotonic() - started, cpu_s, problem)


def _wait(process: subprocess.Popen[bytes], until: float) -> float | None:
    """The CPU seconds of a process that ended by itself; `None` if the time is over."""
    while (cpu_s := _reaped(process, os.WNOHANG)) is None and time.monotonic() < until:
        time.sleep(0.05)
    return cpu_s


def _end(process: subprocess.Popen[bytes]) -> float:
    """End what is left of the process and its group: first as Ctrl-C does, so that it can clean up.

    Returns:
        Its CPU seconds, if it had not ended yet.
    """
    cpu_s = None
    _signal_all(process, signal.SIGINT)
    if process.returncode is None:
        cpu_s = _wait(process, time.monotonic() + _GRACE_S)
    _signal_all(process, signal.SIGKILL)
    if process.returncode is None:
        cpu_s = _reaped(process, 0)
    return cpu_s or 0.0


def _signal_all(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # nothing is left of the group
        os.killpg(process.pid, number)


def _reaped(process: subprocess.Popen[bytes], flags: int) -> float | None:
    found, status, usage = os.wait4(process.pid, flags)
    if found == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
