"""Makes the runs of a checkout in a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.equal_runs.rows import write_rows
from tests.conformance.equal_runs.runs import Command, Run

MADE = "made.json"
"""What each run and the folder say of themselves: exit codes, the checkout."""
ROWS = "rows"
REFUSED = 2
"""The exit code of a command line that a checkout does not know."""
_PATIENCE_S = 600.0


def make(folder: Path, checkout: Path, runs: Sequence[Run], jobs: int) -> int:
    """Make these runs, and return how many have a command that was refused or stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / ROWS, ignore_errors=True)
    write_rows(folder / ROWS)
    checkout = checkout.resolve()
    about = {
        "checkout": str(checkout),
        "folder": str(folder.resolve()),
        "commit": commit_of(checkout),
    }
    (folder / MADE).write_text(json.dumps(about), encoding="utf-8")
    with ThreadPoolExecutor(jobs) as pool:
        codes = list(pool.map(lambda run: _make_run(folder / run.name, checkout, run), runs))
    return sum(REFUSED in found for found in codes)


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, and whether its files differ from it."""
    words = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def _make_run(folder: Path, checkout: Path, run: Run) -> list[int]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    codes = [
        _run_command(folder, checkout, command, number)
        for number, command in enumerate(run.commands, 1)
    ]
    (folder / MADE).write_text(json.dumps({"exit_codes": codes}), encoding="utf-8")
    print(f"{run.name}: exit code {', '.join(map(str, codes))}", file=sys.stderr, flush=True)
    return codes


def _run_command(folder: Path, checkout: Path, command: Command, number: int) -> int:
    code = REFUSED
    for words in command.spellings:
        with (folder / f"said-{number}.txt").open("wb") as said:
            said.write(f"judgegym {' '.join(words)}\n".encode())
            said.flush()
            code = subprocess.run(
                [str(checkout / ".venv" / "bin" / "judgegym"), *words],
                cwd=folder,
                env=clean_variables(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE_S,
                check=False,
            ).returncode
        if code != REFUSED:
            break
    return code


def clean_variables() -> dict[str, str]:
    """This process's variables without settings, keys, and what would let another checkout's code in."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUDGEGYM_", "PYTHON"))
        and not name.lower().endswith(("_proxy", "_api_key"))
    }
