"""How many functions of how many files a row passes: in evaluate, score and process, and as a request to the server.

Counted with `sys.setprofile`, in a process of its own for each round, while one row is on its way,
with stand-ins as
endpoints: from the moment at which the asyncio task that carries it enters its first function of
the project until that task is done. In `evaluate` and `score` its samples are on disk by then, in
`process` its group is made. That task is the first that runs code of the project once the run
directory is there. A progress display that a row reports to is on its way; one that looks for
itself a few times a second is not, unless it looks just then. All tasks and threads count
meanwhile, among them the two games that are judged at once. A request is followed from the ASGI
application's call to its end.

Functions are those of the project's packages, the stand-in (`judgegym/offline`) apart;
comprehensions belong to the function that they stand in, what is made at run time (dataclasses'
constructors) and what a timer calls (`CLOCK`) are left out. A change of file is one between two
calls that follow each other, whoever made them; a coroutine that goes on after a pause is called
again. Which of the two games is answered first moves the number of changes by a few, so the median
of the rounds is printed.
Versions of Python differ in what they report: compare figures of one version.

    python -m benchmarks.row_path [--way evaluate …] [--checkout PATH] [--python PATH] [--rounds 5]
    [--list]
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judgegym.server.asgi import RewardServer

WAYS = ("evaluate", "score", "request", "process")
HERE = Path(__file__).resolve()
PACKAGES = ("judgegym", "judgegym_trainers", "judgegym_trials")
STAND_IN = "judgegym/offline/"
CLOCK = frozenset({"_rested"})
"""Functions that a timer calls: whether one falls into the row's time depends on the machine, not on the row."""
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

    def know_all_tasks(self) -> None:
        """Take a task that is not there yet for the row's."""
        self._before |= asyncio.all_tasks()

    def watch(self) -> None:
        """Begin to look for the row."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        file = self._file(code.co_filename)
        if (
            file is None
            or self.is_over
            or not is_function(code)
            or (self._row is None and not self._has_begun())
        ):
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
        is_display = "ProgressDisplay" in getattr(task.get_coro(), "__qualname__", "")
        if is_display or not self._run_directory.exists():
            self._before.add(task)
            return False
        self._row = task
        task.add_done_callback(self._end)
        return True

    def _end(self, row: asyncio.Task[object]) -> None:
        self.is_over = True
        sys.setprofile(None)


def is_function(code: CodeType) -> bool:
    """Whether it is the code of a function, not of a comprehension, a class or a module, nor called by a timer."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name not in COMPREHENSIONS | CLOCK


def follow(checkout: Path, way: str) -> list[Function]:
    """Send one row on its way in this process; the calls on it."""
    sys.path.insert(0, str(checkout))
    with tempfile.TemporaryDirectory() as folder:
        return (
            asyncio.run(_follow_request(checkout))
            if way == "request"
            else _follow_row(checkout, way, Path(folder))
        )


def _follow_row(checkout: Path, verb: str, folder: Path) -> list[Function]:
    run_directory, rows = folder / "run", folder / "rows.jsonl"
    if verb == "score":
        rows.write_text('{"prompt": "Why is the sky blue?", "response": "It mirrors the sea."}\n')
        options = [f"--data={rows}", f"--out={folder / 'judged.jsonl'}"]
        run_directory = folder / "judged.run"
    elif verb == "process":
        options = [
            "arena_hard",
            "--env.total_steps=1",
            f"--env.data_path_to_save_groups={folder / 'groups.jsonl'}",
        ]
        run_directory = folder / "groups.run"
    else:
        options = ["arena_hard", "--limit=1", f"--env.data_dir_to_save_evals={run_directory}"]
    path = RowPath(checkout, run_directory)
    sys.argv = ["judgegym", verb, *options, "--offline"]
    path.watch()
    try:
        runpy.run_module("judgegym", run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    assert path.is_over, "no task carried a row once the run directory was there"
    return path.calls


async def _follow_request(checkout: Path) -> list[Function]:
    from judgegym.server.asgi import RewardServer

    server = RewardServer(offline=True)
    async with server.lifespan():
        await _request(server, "Name a prime.")  # the first one opens connections and files
        path = RowPath(
            checkout, Path(__file__)
        )  # the run directory is there: the next task is the request
        path.know_all_tasks()
        path.watch()
        await asyncio.create_task(_request(server, "Why is the sky blue?"))
    assert path.is_over
    return path.calls


async def _request(server: RewardServer, prompt: str) -> None:
    body = json.dumps({"prompt": prompt, "responses": ["It mirrors the sea."]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/score",
        "raw_path": b"/v1/score",
        "query_string": b"",
    }
    arriving: list[dict[str, object]] = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[object] = []

    async def receive() -> dict[str, object]:
        if not arriving:
            await asyncio.Event().wait()  # the client stays until it has the response
        return arriving.pop()

    async def send(message: Mapping[str, object]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    await server({**scope, "headers": headers}, receive, send)
    assert statuses == [200], statuses


def changes(calls: Sequence[Function]) -> int:
    """How often a call is in another file than the one before it."""
    return sum(one[0] != other[0] for one, other in itertools.pairwise(calls))


def in_process_of_its_own(python: str, checkout: Path, way: str) -> list[Function]:
    """The calls on a row's way, in a fresh process: caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "calls.json"
        command = [
            python,
            "-m",
            "benchmarks.row_path",
            f"--checkout={checkout}",
            f"--way={way}",
            f"--child={result}",
        ]
        paths = {
            **os.environ,
            "PYTHONPATH": str(HERE.parent.parent),
        }  # the checkout's own come before it
        done = subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return [(file, name, line) for file, name, line in json.loads(result.read_bytes())]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, default=HERE.parent.parent)
    parser.add_argument(
        "--python", help="interpreter (default: the checkout's .venv/bin/python, or this one)"
    )
    parser.add_argument("--way", choices=WAYS, help="one of them (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", action="store_true", help="the functions, by file")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if arguments.child is not None:
        arguments.child.write_text(json.dumps(follow(checkout, arguments.way)))
        return
    own = checkout / ".venv" / "bin" / "python"
    python = arguments.python or (str(own) if own.exists() else sys.executable)
    for way in [arguments.way] if arguments.way else WAYS:
        rounds = [in_process_of_its_own(python, checkout, way) for _ in range(arguments.rounds)]
        for number, calls in enumerate(rounds, start=1):
            print(f"{way}, round {number}: {described(*size(calls), changes(calls))}")
        sizes = [(*size(calls), changes(calls)) for calls in rounds]
        print(f"{way}, median: {described(*map(statistics.median_low, zip(*sizes, strict=True)))}")
        if arguments.list:
            show(rounds[0])


def size(calls: Sequence[Function]) -> tuple[int, int]:
    """How many functions there are, and in how many files."""
    return len(set(calls)), len({call[0] for call in calls})


def described(functions: int, files: int, changed: int) -> str:
    return f"{functions} functions in {files} files, {changed} changes of file"


def show(calls: Sequence[Function]) -> None:
    """Print the functions by file, in the order of their first calls."""
    for file in dict.fromkeys(call[0] for call in calls):
        names = [f"{name}:{line}" for where, name, line in dict.fromkeys(calls) if where == file]
        print(f"{file} ({len(names)})\n    " + "\n    ".join(names))


if __name__ == "__main__":
    main()
