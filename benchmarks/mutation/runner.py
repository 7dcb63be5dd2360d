"""Runs the chosen tests against each mutant, in scratch copies of the checkout that share nothing with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from .operators import Mutant
from .selection import TestSelection

NOT_COPIED_FROM_ROOT = frozenset(
    {
        ".git",
        ".venv",
        "runs",
        "wandb",
        "build",
        "dist",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)
"""Large or made by machines. Only at the top: a package may have a folder of the same name."""
PYTEST = ("-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
UNTIL_FIRST_FAILURE = ("-x", *PYTEST)
NOTHING_COLLECTED = 5
OUTPUT_KEPT = 2000

Status = Literal["killed", "timeout", "survived", "untested"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said of a mutant.

    Attributes:
        mutant: the change.
        status: `killed` by a failing test, or by a `timeout`; `survived` all tests; `untested` if
            none was chosen.
        seconds: how long its tests took.
        tests: the test files that decided.
        output: the end of what pytest printed, if they failed.
    """

    mutant: Mutant
    status: Status
    seconds: float
    tests: tuple[str, ...]
    output: str

    @property
    def is_alive(self) -> bool:
        """Whether no test noticed the change."""
        return self.status in ("survived", "untested")


class Runner:
    """Judges mutants, as many at once as there are scratch copies."""

    def __init__(
        self,
        checkout: Path,
        python: str,
        selection: TestSelection,
        timeout: float,
        scratch: Path,
        jobs: int,
    ) -> None:
        """Make the copies; `timeout` is for all tests of one mutant together, in seconds."""
        self._python, self._selection, self._timeout = python, selection, timeout
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copy = scratch / f"copy-{number}"
            copy_tree(checkout, copy)
            self._free.put(copy)
        self._lock = threading.Lock()
        # Cached bytecode is compared with its source by the second of the source's last change, so
        # each version of a file gets a second of its own.
        self._last_change = 1_000_000_000

    def run(self, mutant: Mutant) -> Outcome:
        """Put a mutant into a free copy, run its tests there and take it out again."""
        started = time.monotonic()
        copy = self._free.get()
        path = copy / mutant.file
        original = path.read_bytes()
        try:
            self._write(
                path, original[: mutant.start] + mutant.text.encode() + original[mutant.end :]
            )
            status, tests, output = self._verdict(mutant, copy, started)
        finally:
            self._write(path, original)
            self._free.put(copy)
        return Outcome(mutant, status, time.monotonic() - started, tests, output)

    def check(self, mutants: Iterable[Mutant]) -> str | None:
        """Run all tests that the mutants need on the unchanged tree; the output, if one fails."""
        files = dict.fromkeys(
            test for mutant in mutants for test in self._selection.files_for(mutant.file)
        )
        files |= dict.fromkeys(self._selection.fallback)
        if not files:
            return None
        copy = self._free.get()
        try:
            code, output = self._pytest(copy, list(files), None, PYTEST)
        finally:
            self._free.put(copy)
        return None if code == 0 else output

    def _verdict(
        self, mutant: Mutant, copy: Path, started: float
    ) -> tuple[Status, tuple[str, ...], str]:
        rounds = [
            files
            for files in (self._selection.files_for(mutant.file), self._selection.fallback)
            if files
        ]
        any_ran = False
        for files in rounds:
            left = self._timeout - (time.monotonic() - started)
            code, output = self._pytest(copy, files, max(left, 1.0), UNTIL_FIRST_FAILURE)
            if code is None:
                return "timeout", files, output
            if code not in (0, NOTHING_COLLECTED):
                return "killed", files, output
            any_ran = any_ran or code == 0
        return (
            "survived" if any_ran else "untested",
            tuple(file for files in rounds for file in files),
            "",
        )

    def _pytest(
        self, copy: Path, files: Sequence[str], seconds: float | None, options: Sequence[str]
    ) -> tuple[int | None, str]:
        """Run pytest; its exit code (`None` if it took too long) and the end of its output."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy),
        }  # ahead of an editable install of the checkout
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                [self._python, "-m", "pytest", *options, *files],
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            printed.seek(0)
            return code, printed.read().decode(errors="replace")[-OUTPUT_KEPT:]

    def _write(self, path: Path, data: bytes) -> None:
        with self._lock:
            self._last_change += 1
            changed = self._last_change
        path.write_bytes(data)
        os.utime(path, (changed, changed))


def copy_tree(checkout: Path, copy: Path) -> None:
    """Copy what git would hold of a checkout, as it is now."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        of_root = NOT_COPIED_FROM_ROOT if Path(folder) == checkout else frozenset()
        return {
            name
            for name in names
            if name in of_root or name == "__pycache__" or name.endswith(".egg-info")
        }

    shutil.copytree(checkout, copy, ignore=left_out, symlinks=True)
