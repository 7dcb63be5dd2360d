"""Runs a page's commands and Python as a reader does, in order, in a folder with the repository's files.

What never ends (servers, `serve`) is started, awaited until it is ready, kept for the commands
after it, and ended at the end of the page with Ctrl-C. Ports are the only thing that differs from
the page: each becomes a free one, so that pages can run at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judgegym.cli.environments import load_environment
from judgegym.environments.command_line.program import VERBS
from tests.command import PATIENCE_S, clean_environment, eventually, in_process
from tests.docs.blocks import Block, Command, blocks
from tests.docs.reasons import PORT, SHELL, why_not_run, why_not_run_python, words_of_judgegym
from tests.forking import ROOT, Forked
from tests.trainer import free_port

DEFAULT_PORTS = {
    "judge-server": 8400,
    "view": 8300,
    "label": 8301,
    "run-api": 8000,
    "offline-server": 8500,
}
_ENDED_BY_CTRL_C = (0, 130)
_OWN = frozenset({".git", ".venv", "build", "data", "runs", "examples"})
_API = "--env.rollout_server_url"


@dataclass(frozen=True)
class Step:
    """A command or a block of Python of a page, with the reason why it is not run, if there is one."""

    what: Command | Block
    reason: str

    @property
    def shown(self) -> str:
        """The step in one line."""
        return (
            str(self.what)
            if isinstance(self.what, Command)
            else f"python from line {self.what.line}"
        )


def steps_of(page: Path) -> list[Step]:
    """All steps of a page in order; files that it has saved are in the steps after them."""
    files: set[str] = set()
    served: set[int] = set()
    steps: list[Step] = []
    for block in blocks(page):
        if block.title:
            files.add(block.title)
        elif block.language == "python":
            steps.append(Step(block, why_not_run_python(block, served)))
        elif block.language == "bash":
            for command in block.commands():
                steps.append(Step(command, why_not_run(command, files, served)))
                if not steps[-1].reason and (port := _listens_at(command)) is not None:
                    served.add(port)
    return steps


def _listens_at(command: Command) -> int | None:
    """The port at which a server of the page listens; none for what is no server."""
    server = (
        command.program if command.program == "run-api" else (words_of_judgegym(command) or [""])[0]
    )
    if server not in DEFAULT_PORTS or {"--help", "--help_all", "--export", "--import"} & set(
        command.words
    ):
        return None
    given = PORT.search(" ".join(command.words))
    return int(given["port"]) if given else DEFAULT_PORTS[server]


@dataclass
class Reader:
    """Somebody who follows a page.

    Attributes:
        folder: where the commands run.
        ports: the free port in place of each of the page's.
    """

    folder: Path
    variables: dict[str, str] = field(default_factory=clean_environment)
    ports: dict[int, int] = field(default_factory=dict)
    started: list[tuple[str, Forked, Path]] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def check_printed(self, block: Block) -> None:
        """Compare a block with what the commands before it have printed, but for line ends, rules and times."""
        printed = _plain("".join(self.printed))
        for part in re.split(r"^…$", block.text, flags=re.MULTILINE):
            assert _plain(part) in printed, (
                f"line {block.line}: not printed:\n{part}\nbut:\n{''.join(self.printed)}"
            )

    def save(self, block: Block) -> None:
        """Save a block that has a title as the file of this name."""
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._with_ports(block.text), encoding="utf-8")

    def run_python(self, block: Block) -> None:
        """Run a block as a program."""
        self._run_file(self._with_ports(block.text), block.line, 0)

    def run(self, command: Command) -> None:
        """Run a command to its end, or until it is ready if it has none."""
        port = _listens_at(command)
        words = [self._with_ports(word) for word in self._flags_with_ports(command.words, port)]
        of_judgegym = (words_of_judgegym(command) or [""])[0]
        variables = {**self.variables, **dict(command.variables)}
        if command.program == "cd":
            self.folder = self.folder / words[0]
        elif command.program == "export":
            name, _, value = words[0].partition("=")
            self.variables[name] = value
        elif command.program in SHELL:
            ended = subprocess.run(
                [command.program, *words],
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == command.code, (
                f"line {command.line}: {command}\n{ended.stdout}{ended.stderr}"
            )
        elif command.program == "python" and words[0] == "-c":
            self._run_file(words[1], command.line, command.code)
        elif port is not None or of_judgegym == "serve":
            if of_judgegym == "serve" and _API not in " ".join(words):
                api = (
                    self.ports.get(DEFAULT_PORTS["run-api"]) or free_port()
                )  # never one that runs on this machine
                words.append(f"{_API}=http://127.0.0.1:{api}")
            self._start(command, _for_python(command.program, words), variables, port)
        elif command.program == "judgegym" and of_judgegym in VERBS and "--help" not in words:
            self._run_in_process(command, words, variables)
        else:
            self._run_forked(_for_python(command.program, words), command, variables)

    def leave(self) -> None:
        """End everything that was started, with Ctrl-C, the latest first."""
        for shown, process, errors in reversed(self.started):
            assert process.poll() is None, f"ended by itself: {shown}\n{errors.read_text()}"
            process.send_signal(signal.SIGINT)
            process.communicate(PATIENCE_S)
            said = errors.read_text()
            assert process.returncode in _ENDED_BY_CTRL_C, (
                f"ended with {process.returncode}: {shown}\n{said}"
            )
            assert "Traceback" not in said, f"{shown}\n{said}"
            process.close()
        self.started.clear()

    def kill(self) -> None:
        """End what is still there, after a failure."""
        for _, process, _ in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _with_ports(self, text: str) -> str:
        return PORT.sub(
            lambda found: found["before"] + str(self.ports.get(int(found["port"]), found["port"])),
            text,
        )

    def _flags_with_ports(self, words: tuple[str, ...], port: int | None) -> list[str]:
        """The words with `--port=N` as one word, and with one for a server that has none."""
        if port is None:
            return list(words)
        self.ports[port] = free_port()
        given = PORT.search(" ".join(words))
        if given is None:
            return [*words, f"--port={self.ports[port]}"]
        return shlex.split(re.sub(r"--port[= ](\d+)", r"--port=\1", shlex.join(words)))

    def _run_in_process(
        self, command: Command, words: list[str], variables: dict[str, str]
    ) -> None:
        verb, place, *rest = words
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            ended = in_process(verb, *rest, env_type=load_environment(place), env=variables)
        assert ended.code == command.code, f"line {command.line}: {command}\n{ended.said}"
        self.printed.append(ended.out)

    def _run_file(self, text: str, line: int, code: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "block.py"
            path.write_text(text, encoding="utf-8")
            command = Command((), "python", (str(path),), code, line)
            self._run_forked([str(path)], command, self.variables)

    def _run_forked(self, words: list[str], command: Command, variables: dict[str, str]) -> None:
        process = Forked(words, cwd=self.folder, env=variables)
        try:
            out, err = process.communicate(PATIENCE_S)
        finally:
            process.kill()
            process.close()
        said = out.decode() + err.decode()
        assert process.returncode == command.code, f"line {command.line}: {command}\n{said}"
        self.printed.append(out.decode())

    def _start(
        self, command: Command, words: list[str], variables: dict[str, str], port: int | None
    ) -> None:
        errors = self.folder / f".errors-{len(self.started)}"
        with errors.open("wb") as stream:
            process = Forked(
                words, cwd=self.folder, env=variables, kept=("out",), errors=stream.fileno()
            )
        self.started.append((str(command), process, errors))

        def ready() -> bool:
            assert process.poll() is None, (
                f"line {command.line}: ended: {command}\n{errors.read_text()}"
            )
            return (
                "waiting for" in errors.read_text() if port is None else _answers(self.ports[port])
            )

        eventually(ready, f"ready: {command}")
        if (words_of_judgegym(command) or [""])[0] == "label":
            self._label_a_row(self.folder / command.words[1])

    def _label_a_row(self, run: Path) -> None:
        """Label the first row of a run, as people do on its page, whose server appends to the same file."""
        with (run / "samples.jsonl").open("rb") as samples:
            uid = json.loads(samples.readline())["uid"]
        with (run / "labels.jsonl").open("a") as labels:
            labels.write(json.dumps({"uid": uid, "labeller": "ann", "label": 1}) + "\n")


def _plain(text: str) -> str:
    """A text as one line, without the rules of tables, and with one word for all times."""
    text = re.sub(r"[\u2500-\u257f]", " ", text)
    text = re.sub(r"\b(p95 )?\d+(\.\d+)?( s\b|(?=\)))", "TIME", text)
    return " ".join(text.split())


def _for_python(program: str, words: list[str]) -> list[str]:
    """What follows `python` for a program of the project."""
    modules = {"judgegym": "judgegym", "run-api": "atroposlib.cli.run_api"}
    return words if program == "python" else ["-m", modules[program], *words]


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    """A reader in a folder with the repository's files; examples are copies, since commands write beside them."""
    for path in ROOT.iterdir():
        if path.name not in _OWN:
            (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "examples", folder / "examples")
    reading = Reader(folder)
    try:
        yield reading
        reading.leave()
    finally:
        reading.kill()
