"""Serve the model with llama.cpp's OpenAI-compatible server, in this process or in a child.

Guarantees of `running`: the endpoint answers when the block begins, and has ended when the block
ends, however that is. If this process is killed, the child sees the end of its standard input and
ends, too.

Source: llama.cpp's server in xllamacpp 2026.10.11549 (`/health`, `/props`, `/v1/chat/completions`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.processes import ROOT
from examples.real_model import model
from examples.real_model.http import Endpoint
from judgegym.llm.errors import SettingsError

TEMPLATE = Path(__file__).with_name("template.jinja")
DEFAULT_PORT = 8080
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

_START_S = 120.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of the server.

    Attributes:
        port: the port on the loopback interface.
        slots: the number of concurrent requests; others wait. It is also the largest `n`.
        context: the tokens of prompt and answer of all slots together; each has an equal share.
        threads: the number of computing threads. They wait for each other at every step: with one
            per core, a core with other work delays all of them, and on two busy cores two threads
            are ten times slower than one.
        own_template: use the chat template in the model's file, whose markers this model does not
            know; otherwise `template.jinja`, which writes a question and an answer.
        cache: the folder of the model's file.
    """

    port: int = DEFAULT_PORT
    slots: int = 4
    context: int = 16_384
    threads: int = max(1, CORES - 1)
    own_template: bool = False
    cache: Path | None = None

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def flags(self) -> list[str]:
        """Return the settings as words of the command line."""
        cache = [] if self.cache is None else [f"--cache={self.cache}"]
        template = ["--own_template"] if self.own_template else []
        numbers = {
            "port": self.port,
            "slots": self.slots,
            "context": self.context,
            "threads": self.threads,
        }
        return [*(f"--{name}={number}" for name, number in numbers.items()), *template, *cache]


def check_port(port: int) -> None:
    """Check that a port is free.

    Raises:
        SettingsError: it is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"--port: {port} cannot be used ({error}); name another one"
            ) from None


def serve_here(settings: ServerSettings, *, exit_with_parent: bool) -> int:
    """Serve in this process until Ctrl-C, SIGTERM, or (optionally) the end of standard input.

    Raises:
        SettingsError: the server does not start.
    """
    check_port(settings.port)
    path = model.assemble(settings.cache or model.default_cache())
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {model.NAME}
    parameters.port = settings.port
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.context
    parameters.cpuparams.n_threads = settings.threads
    parameters.verbosity = -1
    if not settings.own_template:
        parameters.chat_template = TEMPLATE.read_text(encoding="utf-8")
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise SettingsError(f"llama.cpp does not start: {error}") from error
    ended = _listen_for_end(
        exit_with_parent
    )  # before the line below, whose reader may end this process
    print(f"{model.NAME} is served at {server.listening_address}/v1", flush=True)
    while not ended.wait(1.0):
        pass
    os._exit(0)  # there is nothing to save, and destructors would wait for answers in progress


def _listen_for_end(exit_with_parent: bool) -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    if exit_with_parent:
        threading.Thread(target=_wait_for_input_end, args=(ended,), daemon=True).start()
    return ended


def _wait_for_input_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in a child process.

    Attributes:
        endpoint: the client of the server.
        settings: the server's settings.
        seconds_to_load: the time from the start until it was ready.
        while_loading: the distinct HTTP statuses of its responses before that.
        process: the child.
    """

    endpoint: Endpoint
    settings: ServerSettings
    seconds_to_load: float
    while_loading: tuple[int, ...]
    process: subprocess.Popen[bytes]

    def processor_seconds(self) -> float:
        """Return the child's processor time so far; 0 if the system does not report it."""
        try:
            fields = (
                Path(f"/proc/{self.process.pid}/stat")
                .read_text(encoding="ascii")
                .rpartition(")")[2]
                .split()
            )
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self) -> int:
        """Return the child's peak memory so far, in bytes; 0 if the system does not report it."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        peak = next(
            (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0"
        )
        return int(peak) * 1024


@contextmanager
def running(settings: ServerSettings, log: Path) -> Iterator[RunningServer]:
    """Run the server in a child process while the block lasts; its output goes to a file.

    Raises:
        SettingsError: it does not start.
    """
    check_port(settings.port)
    words = [
        sys.executable,
        "-m",
        "examples.real_model",
        "serve",
        *settings.flags(),
        "--exit_with_parent",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield _wait_until_ready(process, settings, log)
    finally:
        process.kill()  # it has nothing to clean up
        process.communicate()


def _wait_until_ready(
    process: subprocess.Popen[bytes], settings: ServerSettings, log: Path
) -> RunningServer:
    began = time.monotonic()
    endpoint = Endpoint(settings.url, model.NAME)
    statuses = dict[int, None]()
    while time.monotonic() - began < _START_S:
        if process.poll() is not None:
            log_lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if log_lines:
                raise SettingsError(log_lines[-1].removeprefix("error: "))
            raise SettingsError("the server ended without a word")
        status = endpoint.status("/health")
        if status == 200:
            return RunningServer(
                endpoint, settings, time.monotonic() - began, tuple(statuses), process
            )
        if status is not None:
            statuses[status] = None
        time.sleep(_POLL_S)
    raise SettingsError(f"the server was not ready within {_START_S:.0f} s; its log is {log}")
