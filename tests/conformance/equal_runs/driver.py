"""Runs command lines with the package of a checkout: each in a process forked from one that has imported it.

`CHECKOUT/.venv/bin/python -I driver.py` reads a line of JSON for each command (`driving.py`) and
answers with one that
has its exit code. It imports nothing of the tests: they are another checkout's.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import sys
import traceback

_IMPORTED = (
    "judgegym.cli.commands",
    "judgegym.datasets.score.command",
    "judgegym.environments.command_line.main",
)


def main() -> None:
    """Run what standard input asks for, until it ends."""
    for name in _IMPORTED:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            _run(job, writing)
        os.close(writing)
        with os.fdopen(reading) as imported:
            _import(imported.read().split())  # once for all later commands
        _, status = os.waitpid(child, 0)
        answers.write(json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n")
        answers.flush()


def _import(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _run(job: dict[str, object], writing: int) -> None:
    """Run a command, tell what it has imported, and leave this process."""
    before = {*sys.modules}
    code: object = 1
    try:
        said = os.open(str(job["said"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, place in ((0, nothing), (1, said), (2, said)):
            os.dup2(place, number)
        os.chdir(str(job["folder"]))
        os.environ.update(job["variables"])  # type: ignore[call-overload]
        sys.argv = ["judgegym", *job["words"]]  # type: ignore[misc]
        if job["script"] is not None:
            runpy.run_path(str(job["script"]))["begin"](**job["begun"])  # type: ignore[arg-type]
        commands = importlib.import_module("judgegym.cli.commands")
        code = commands.main()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:  # noqa: BLE001  # the process ends here, whatever it was
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(writing, "w") as imported:
        imported.write(
            "\n".join(name for name in {*sys.modules} - before if name.startswith("judgegym"))
        )
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
