"""Python commands as processes of their own without the seconds of their imports: forked from one that has them done.

Each process that runs tests has one fork server. A command that is forked has its own process
group, pipes, working directory, environment and signals, and ends as the interpreter does. What it
does not show is the interpreter's start (imports, `PYTHONPATH`, and variables that a library reads
while it is imported), and how memory is freed at the end. A test of those starts a fresh
interpreter.

The server forks a minder for each command; the minder forks the command, and passes on its id, its
exit status and its seconds of CPU.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
_PRELOADED = (
    "judgegym.cli.commands",
    "judgegym.datasets.cluster.pool",
    "judgegym.datasets.score.command",
    "judgegym.environments.aspect_critique_environment",
    "judgegym.environments.rubric_checklist_environment",
    "judgegym.environments.command_line.main",
    "judgegym.environments.command_line.commands",
    "judgegym.environments.prompts_environment",
    "judgegym.environments.rubric_absolute_environment",
    "judgegym.eval_environments.arena_hard_environment",
    "judgegym.eval_environments.mt_bench_environment",
    "judgegym.eval_environments.pairwise_judgement_environment",
    "judgegym.eval_environments.self_critique_environment",
    "judgegym.offline.__main__",
    "judgegym.offline.command",
    "judgegym.server.__main__",
    "judgegym.server.command",
    # What they import when they need it.
    "atroposlib.cli.run_api",
    "jinja2",
    "rich.logging",
    "rich.progress",
    "rich.table",
    "scipy.stats",
    "sklearn.metrics",
    "uvloop",
)
Stream = Literal["out", "err"]
HEAD_START_S = 0.02
"""For how long the first request to a model goes ahead of the others, in the tests and in commands that are forked."""
_LARGEST_REQUEST = 1 << 18

cpu_seconds = 0.0
"""Of all commands that were forked for this process and have ended: they are children of the fork server."""


class Forked:
    """A command that was forked; as much of `subprocess.Popen` as the tests need."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        kept: Collection[Stream] = ("out", "err"),
        errors: int | None = None,
    ) -> None:
        """Start it, with a standard input that ends when this process closes it or ends.

        Args:
            words: what follows `python` on the command line: a script, or `-m` and a module.
            cwd: its working directory.
            env: all of its variables.
            kept: what of its output is kept for `communicate`; the rest is thrown away.
            errors: a descriptor that takes its standard error instead.
        """
        self.returncode: int | None = None
        self._status, status = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._output: dict[Stream, bytearray] = {"out": bytearray(), "err": bytearray()}
        self._input: int | None
        its, self._input = os.pipe()
        ends = [its]
        for stream in self._output:
            if stream == "err" and errors is not None:
                its = os.dup(errors)
            elif stream in kept:
                mine, its = os.pipe()
                self._selector.register(mine, selectors.EVENT_READ, stream)
            else:
                its = os.open(os.devnull, os.O_WRONLY)
            ends.append(its)
        request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
        socket.send_fds(_server(), [request], [*ends, status])
        for end in (*ends, status):
            os.close(end)
        self.pid = int(self._line())

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._status, 1)
            assert read, "the fork server is gone"
            line += read
        return line.decode()

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; none while it runs."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if selector.select(0):
                    self._read_end()
        return self.returncode

    def _read_end(self) -> None:
        """Wait for its end."""
        global cpu_seconds
        status, seconds = self._line().split()
        cpu_seconds += float(seconds)
        self.returncode = int(status)

    def send_signal(self, number: int) -> None:
        """A signal to this process alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Its output once it has ended and closed both; its input ends now."""
        self._close_input()
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._selector.get_map():
            self._read(deadline)
        if self.returncode is None:
            self._read_end()
        return bytes(self._output["out"]), bytes(self._output["err"])

    def _close_input(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = None

    def first_line(self, timeout: float) -> str:
        """The first line of its standard output, as soon as it is there; what there is if it ends before."""
        return self.first_lines(1, timeout)[0]

    def first_lines(self, count: int, timeout: float) -> list[str]:
        """The first lines of its standard output, as soon as they are there; what there is if it ends before."""
        deadline = time.monotonic() + timeout
        while self._output["out"].count(b"\n") < count and self._selector.get_map():
            self._read(deadline)
        return self._output["out"].decode().split("\n")[:count]

    def _read(self, deadline: float | None) -> None:
        """Read what there is of its output; wait for some."""
        events = self._selector.select(
            None if deadline is None else max(0.0, deadline - time.monotonic())
        )
        if not events:
            raise subprocess.TimeoutExpired("the forked command", 0.0)
        for key, _ in events:
            read = os.read(key.fd, 1 << 16)
            self._output[key.data] += read
            if not read:
                self._selector.unregister(key.fd)
                os.close(key.fd)

    def close(self) -> None:
        """Let go of the pipes."""
        self._close_input()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        os.close(self._status)


@cache
def _server() -> socket.socket:
    """Our end of the socket to the fork server, which is started at the first use and ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_REQUEST)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # no terminal, as a command's pipes are none
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def _compose_settings() -> None:
    """Make the classes of settings, whose making is a third of the CPU time of a short command."""
    from judgegym.cli.environments import built_in_modules, load_environment
    from judgegym.datasets.score.settings import ScoreSettings
    from judgegym.environments.command_line.arguments import make_settings_type
    from judgegym.judges.config.composed import compose, expand_choices
    from judgegym.server.settings import RewardServerSettings

    of_environments = [make_settings_type(load_environment(name)) for name in built_in_modules()]
    for settings in (*of_environments, ScoreSettings, RewardServerSettings):
        expand_choices(settings)
        compose(settings, {})


def _next_command(requests: socket.socket) -> dict[str, Any]:
    """Fork a process for each request: returns in those, each with its own, and leaves when the tests have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the minders
    while True:
        request, ends, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _mind(*ends)
            command: dict[str, Any] = json.loads(request)
            return command
        for end in ends:
            os.close(end)


def _mind(stdin: int, out: int, err: int, status: int) -> None:
    """Fork the command, and return in it alone; say its id, and at its end what is known of it."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for standard, end in enumerate((stdin, out, err)):
            os.dup2(end, standard)
        for end in (stdin, out, err, status):
            os.close(end)
        before = sys.stdout  # of a device that can be sought in, which this is not
        sys.stdout = open(1, "w", encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        return
    for end in (stdin, out, err):
        os.close(end)
    os.close(1)
    os.close(2)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, b"%d\n" % pid)
        _, ended, usage = os.wait4(pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        os.write(status, b"%d %.3f\n" % (os.waitstatus_to_exitcode(ended), seconds))
    os._exit(0)


def _run(command: Mapping[str, Any]) -> None:
    """Run a script or a module as `python` does."""
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    sys.path.extend(
        entry
        for entry in command["env"].get("PYTHONPATH", "").split(os.pathsep)
        if entry not in sys.path
    )
    first, *rest = command["words"]
    if first == "-m":
        module, *rest = rest
        sys.path[0] = str(Path.cwd())
        sys.argv = [module, *rest]
        for name in {module, f"{module}.__main__"}.intersection(_PRELOADED):
            del sys.modules[name]  # it runs anew, as the main module
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(first).resolve().parent)
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _run_to_its_end(command: Mapping[str, Any]) -> None:
    """Run it; at its end, do what the interpreter does but free no memory, which takes longer than a short command."""
    code: object = None
    try:
        _run(command)
    except SystemExit as leaving:
        code = leaving.code
        if not (code is None or isinstance(code, int)):
            raise
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    _control = socket.socket(fileno=int(sys.argv[1]))
    for _name in _PRELOADED:
        importlib.import_module(_name)
    importlib.import_module("judgegym.llm.refusals.request_fields").HEAD_START_S = HEAD_START_S  # type: ignore[attr-defined]
    _compose_settings()
    gc.collect()
    gc.freeze()
    _run_to_its_end(_next_command(_control))
