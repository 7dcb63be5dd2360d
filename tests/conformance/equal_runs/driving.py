"""Commands of a checkout without the start of an interpreter for each: `driver.py` runs in the checkout's Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.equal_runs.making import clean_variables

_DRIVER = Path(__file__).with_name("driver.py")


@dataclass(frozen=True)
class Job:
    """A command.

    Attributes:
        words: behind `judgegym`.
        folder: where it runs.
        said: the file for what it prints.
        variables: of its environment, beside this process's.
        script: a file of Python whose `begin(**begun)` is called before the command.
        begun: what `begin` is given.
    """

    words: Sequence[str]
    folder: Path
    said: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Path | None = None
    begun: Mapping[str, str] = field(default_factory=dict)


class Driver:
    """Runs commands with the package of a checkout, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, job: Job) -> int:
        """Run a command to its end, and return its exit code."""
        asking, answers = self._process.stdin, self._process.stdout
        assert asking is not None
        assert answers is not None
        text = json.dumps(
            {
                "words": [*job.words],
                "folder": str(job.folder),
                "said": str(job.said),
                "variables": {**job.variables},
                "script": None if job.script is None else str(job.script),
                "begun": {**job.begun},
            }
        )
        asking.write(f"{text}\n")
        asking.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError("the checkout's process has ended: see its error above")
        code: int = json.loads(answer)["code"]
        return code


@contextmanager
def driver_of(checkout: Path) -> Iterator[Driver]:
    """The driver of a checkout, which has its own `.venv`."""
    python = checkout / ".venv" / "bin" / "python"
    with subprocess.Popen(
        [str(python), "-I", str(_DRIVER)],
        cwd=checkout,
        env=clean_variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Driver(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
