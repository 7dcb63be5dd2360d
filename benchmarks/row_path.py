"""How many functions of how many files a row of Arena-Hard passes on its way through `evaluate --offline`.

Counted with `sys.setprofile`, in a process of its own for each round, while one row is evaluated: from the moment at
which the asyncio task that carries the row enters its first function of the project until that task is done, by when
the row's sample is on disk. A progress display that a row reports to is on its way; one that looks for itself a few
times a second is not, unless it looks just then. All tasks and threads count meanwhile, among them the two games that
are judged at once. That task is the first that runs code of the project once the run directory is there.

Functions are those of the project's packages, the stand-in (`judgegym/offline`) apart; comprehensions belong to the
function that they stand in, what is made at run time (dataclasses' constructors) is left out. A change of file is one
between two calls that follow each other, whoever made them; a coroutine that goes on after a pause is called again.
Which of the two games is answered first moves the number of changes by a few, so the median of the rounds is printed.
Versions of Python differ in what they report: compare figures of one version.

    python -m benchmarks.row_path [--checkout PATH] [--python PATH] [--entry FILE] [--rounds 5] [--list]
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import itertools
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

from benchmarks.measured import Measured, report, results_option

LIMIT_FUNCTIONS, LIMIT_FILES = 70, 20
HERE = Path(__file__).resolve()
PACKAGES = ("judgegym",)
STAND_IN = "judgegym/offline/"
ENTRY = "eval_environments/arena_hard_environment.py"
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})

Function = tuple[str, str, int]
"""File, name, line."""


class RowPath:
    """Notes the calls of the project's functions while the row is under way."""

    def __init__(self, checkout: Path, run_directory: Path) -> None:
        """Watch from the first task that is new once `run_directory` is there."""
        self.calls: list[Function] = []
        self.is_over = False
        self._root = f"{checkout}{os.sep}"
        self._run_directory = run_directory
        self._before: set[asyncio.Task[object]] = set()
        self._row: asyncio.Task[object] | None = None

    def watch(self) -> None:
        """Begin to look for the row."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        file = self._file(code.co_filename)
        if file is None or self.is_over or not is_function(code) or (self._row is None and not self._has_begun()):
            return
        # 3.10 has no co_qualname; two functions of one name stand on two lines.
        self.calls.append((file, getattr(code, "co_qualname", code.co_name), code.co_firstlineno))

    def _file(self, path: str) -> str | None:
        """The path inside the checkout, if it is the project's own and not the stand-in's."""
        file = path.removeprefix(self._root)
        is_ours = file != path and file.startswith(tuple(f"{package}/" for package in PACKAGES))
        return file if is_ours and not file.startswith(STAND_IN) else None

    def _has_begun(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop yet
            return False
        if task is None or task in self._before:
            return False
        if not self._run_directory.exists():
            self._before.add(task)
            return False
        self._row = task
        task.add_done_callback(self._end)
        return True

    def _end(self, row: asyncio.Task[object]) -> None:
        self.is_over = True
        sys.setprofile(None)


def is_function(code: CodeType) -> bool:
    """Whether it is the code of a function, not of a comprehension, a class or a module."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name not in COMPREHENSIONS


def follow_row(checkout: Path, entry: str) -> list[Function]:
    """Evaluate one row in this process; the calls on its way."""
    with tempfile.TemporaryDirectory() as folder:
        run_directory = Path(folder) / "run"
        path = RowPath(checkout, run_directory)
        options = ["evaluate", "--offline", "--limit=1", f"--env.data_dir_to_save_evals={run_directory}"]
        sys.argv = [str(checkout / entry), *options]
        sys.path.insert(0, str(checkout))
        path.watch()
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        assert path.is_over, "no task carried a row once the run directory was there"
        assert (run_directory / "samples.jsonl").read_bytes().count(b"\n") == 1
    return path.calls


def changes(calls: Sequence[Function]) -> int:
    """How often a call is in another file than the one before it."""
    return sum(one[0] != other[0] for one, other in itertools.pairwise(calls))


def in_process_of_its_own(python: str, checkout: Path, entry: str) -> list[Function]:
    """The calls on a row's way, in a fresh process: caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "calls.json"
        command = [
            python,
            "-m",
            "benchmarks.row_path",
            f"--checkout={checkout}",
            f"--entry={entry}",
            f"--child={result}",
        ]
        paths = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}  # the checkout's own come before it
        done = subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return [(file, name, line) for file, name, line in json.loads(result.read_bytes())]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=HERE.parent.parent)
    parser.add_argument("--python", help="interpreter (default: the checkout's .venv/bin/python, or this one)")
    parser.add_argument("--entry", default=ENTRY, help="the environment's file in the checkout (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", action="store_true", help="the functions, by file")
    results_option(parser)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if arguments.child is not None:
        arguments.child.write_text(json.dumps(follow_row(checkout, arguments.entry)))
        return
    own = checkout / ".venv" / "bin" / "python"
    python = arguments.python or (str(own) if own.exists() else sys.executable)
    rounds = [in_process_of_its_own(python, checkout, arguments.entry) for _ in range(arguments.rounds)]
    for number, calls in enumerate(rounds, start=1):
        print(f"round {number}: {described(len(set(calls)), len({call[0] for call in calls}), changes(calls))}")
    functions = statistics.median_low(len(set(calls)) for calls in rounds)
    files = statistics.median_low(len({call[0] for call in calls}) for calls in rounds)
    print(f"changes of file, median: {statistics.median_low(changes(calls) for calls in rounds)}")
    lines = (
        Measured("rows", f"a row of {Path(arguments.entry).stem}: {what}", unit, ours, "limit", limit, at_most=1.0)
        for what, unit, ours, limit in (
            ("functions that it passes", "functions", functions, LIMIT_FUNCTIONS),
            ("files that they are in", "files", files, LIMIT_FILES),
        )
    )
    report(lines, arguments.results)
    if arguments.list:
        show(rounds[0])


def described(functions: int, files: int, changed: int) -> str:
    return f"{functions} functions in {files} files, {changed} changes of file"


def show(calls: Sequence[Function]) -> None:
    """Print the functions by file, in the order of their first calls."""
    for file in dict.fromkeys(call[0] for call in calls):
        names = [f"{name}:{line}" for where, name, line in dict.fromkeys(calls) if where == file]
        print(f"{file} ({len(names)})\n    " + "\n    ".join(names))


if __name__ == "__main__":
    main()
