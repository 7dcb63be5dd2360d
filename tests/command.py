"""Runs the command line as a user does: as a process of its own, or in this process where that is not the point.

In this process `judgegym.environments.command_line.main.main` starts an event loop, so such tests
are not coroutines and the endpoints that they need live on a thread (`serving`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
from typing_extensions import Self

from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.main import main
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.llm.refusals import request_fields
from tests.forking import ROOT, Forked
from tests.scripted import Reply, Script, ScriptedEndpoint

SCRIPT = ROOT / "eval_environments" / "arena_hard_environment.py"
PATIENCE_S = 60.0
"""How long anything that must happen may take; a bound for a broken test, never a measure."""

_OURS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")
_VERBS = {"evaluate", "serve", "process"}
_WRITES_PAGE = "JUDGEGYM_ENV__WRITE_REPORT"
_LOGGERS = ("judgegym",)


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def successful(self) -> Self:
        """The same, whose exit code must be 0."""
        assert self.code == 0, self.said
        return self


@dataclass(frozen=True)
class RunFiles:
    """What stands in a run directory."""

    path: Path

    def lines(self, name: str = "samples.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / name).read_bytes().split(b"\n") if line]

    @property
    def samples(self) -> list[dict[str, Any]]:
        return self.lines()

    @property
    def failures(self) -> list[dict[str, Any]]:
        return self.lines("failures.jsonl")

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.path / "metrics.json").read_bytes())
        return report

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics that are known, without their prefix."""
        found = self.report["results"]["all"]
        return {
            name.removeprefix("eval/"): value for name, value in found.items() if value is not None
        }

    @property
    def left_out(self) -> dict[str, str]:
        """Why metrics have no value, by their names without the prefix."""
        reasons: dict[str, str] = self.report["config_general"]["left_out"]
        return {name.removeprefix("eval/"): reason for name, reason in reasons.items()}

    def texts(self) -> list[str]:
        """Everything that stands in the files, the compressed ones too."""
        files = [path for path in self.path.iterdir() if path.is_file()]
        raw = [
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for path in files
        ]
        return [data.decode() for data in raw]

    def without_run(self) -> list[bytes]:
        """The samples' lines, byte for byte, without what may differ between two runs."""
        lines = (self.path / "samples.jsonl").read_bytes().split(b"\n")
        cut = [line.rpartition(b',"run":')[0] for line in lines if line]
        assert all(cut), "a sample without its run"
        return cut

    def interrupt(self, *uids: str) -> None:
        """Leave the run as if it had been stopped when these rows had all their answers, and no line yet."""
        for name in ("samples.jsonl", "failures.jsonl"):
            lines = (self.path / name).read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if json.loads(line)["uid"].partition(":")[0] not in uids]
            (self.path / name).write_bytes(b"".join(kept))
        (self.path / "metrics.json").unlink()
        packed = self.path / "calls.jsonl.gz"
        if packed.exists():
            (self.path / "calls.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()

    def runs(self) -> list[dict[str, Any]]:
        return [sample["run"] for sample in self.samples]


def clean_environment() -> dict[str, str]:
    """This process's environment without settings, keys and proxies, so that no machine's own gets into a test."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("JUDGEGYM_")
        and name not in _OURS
        and not name.lower().endswith("_proxy")
    }
    return {**kept, "PYTHONPATH": str(ROOT)}


def of_command(words: Sequence[str], env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a command. A run writes no page: it takes a second, and those who want one ask for it."""
    is_run = bool(_VERBS & set(words)) and "--show_config" not in " ".join(words)
    return {**clean_environment(), **({_WRITES_PAGE: "False"} if is_run else {}), **(env or {})}


def in_process(
    *argv: str,
    env: Mapping[str, str] | None = None,
    env_type: type[JudgedEnv[Any, Any, Any]] = ArenaHardEnv,
) -> Ended:
    """An environment's command line in this process; leaves the process's variables and its log as they were.

    The stand-ins of `--offline` are processes of their own, and forked.
    """
    return called(lambda: main(env_type, argv), of_command(argv, env))


def called(command: Callable[[], int], variables: Mapping[str, str]) -> Ended:
    """A command in this process, with these environment variables, which are as they were at its end."""
    out, err = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    request_fields.forget_all()  # as a process of its own
    with (
        _log_kept(),
        _forked_stand_ins(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.environ.clear()
        os.environ.update(variables)
        try:
            code = command()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            os.environ.clear()
            os.environ.update(before)
    return Ended(code, out.getvalue(), err.getvalue())


@contextmanager
def _log_kept() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, kept in levels.items():
            logging.getLogger(name).setLevel(kept)


@contextmanager
def _forked_stand_ins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "create_subprocess_exec", _forked)
        yield


async def _forked(
    program: str, *words: str, cwd: Path, env: Mapping[str, str], stderr: IO[bytes], **_: Any
) -> Any:
    assert program == sys.executable
    return _StandInProcess(Forked(words, cwd=cwd, env=env, kept=("out",), errors=stderr.fileno()))


class _StandInProcess:
    """As much of `asyncio.subprocess.Process` as a stand-in needs."""

    def __init__(self, forked: Forked) -> None:
        self._forked = forked
        self.stdout = self

    async def readline(self) -> bytes:
        return f"{self._forked.first_line(PATIENCE_S)}\n".encode()

    def kill(self) -> None:
        self._forked.kill()

    async def communicate(self) -> None:
        self._forked.communicate(PATIENCE_S)
        self._forked.close()


class Started:
    """A command in a process group of its own; whatever is left of the group is killed at the end of the block.

    It is forked from a process that has done the imports, unless `fresh` asks for an interpreter
    that has done nothing.
    """

    def __init__(
        self, *words: str, cwd: Path, env: Mapping[str, str] | None = None, fresh: bool = False
    ) -> None:
        variables = of_command(words, env)
        self.process: Forked | subprocess.Popen[bytes]
        if fresh:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        else:
            self.process = Forked(words, cwd=cwd, env=variables)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        if isinstance(self.process, Forked):
            self.process.close()

    def send(self, number: signal.Signals) -> None:
        """A signal to the whole group, as a terminal sends it."""
        os.killpg(self.process.pid, number)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened, for as long as the command runs."""

        def over() -> bool:
            assert self.process.poll() is None or happened(), (
                f"ended before {what}: {self.ended().said}"
            )
            return happened()

        eventually(over, what)

    def ended(self) -> Ended:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Ended(self.process.returncode, out.decode(), err.decode())


def as_process(
    *argv: str,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    script: str = str(SCRIPT),
    fresh: bool = False,
) -> Ended:
    """The environment's script in a process of its own, run to its end."""
    with Started(script, *argv, cwd=cwd, env=env, fresh=fresh) as started:
        return started.ended()


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)


@contextmanager
def serving(script: Script | Reply | str | ScriptedEndpoint) -> Iterator[ScriptedEndpoint]:
    """A scripted endpoint on a thread of its own; one of another kind may be given as it is."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="scripted-endpoint", daemon=True)
    thread.start()
    endpoint = script if isinstance(script, ScriptedEndpoint) else ScriptedEndpoint(script)
    try:
        asyncio.run_coroutine_threadsafe(endpoint.__aenter__(), loop).result(PATIENCE_S)
        try:
            yield endpoint
        finally:
            asyncio.run_coroutine_threadsafe(endpoint.__aexit__(None, None, None), loop).result(
                PATIENCE_S
            )
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A JSONL file."""
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return path
