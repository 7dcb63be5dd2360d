"""The stand-in server as a child process, its settings, and its listening socket and signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.errors import SettingsError
from judgegym.offline.answers import make_reference
from judgegym.offline.faults import Faults, Outage


@dataclass(frozen=True)
class StandInSettings:
    """Settings of a stand-in server; an invalid one raises a `ValueError` that names it.

    Attributes:
        latency_ms: milliseconds from a request's arrival to its response or error.
        faults: the faults and their rates.
        away: times in which nothing listens.
        slow_ms: milliseconds that a `slow` response takes.
        retry_after: seconds, sent with 429 and 503; not sent if `None`.
        judge_only: whether prompts of unknown judges are refused instead of answered like a
            policy.
        prompts: prompts of further judges; they go before those of this project.
        prefix_cache: whether responses tell how many of the prompt's tokens earlier prompts began
            with (`prompt_tokens_details.cached_tokens`); they then depend on the order of the
            requests.
        text_only: whether a request with a JSON schema as `response_format` is refused, as by an
            endpoint without support for it.
    """

    latency_ms: float = 0.0
    faults: Faults = field(default_factory=Faults)
    away: Sequence[Outage] = ()
    slow_ms: float = 5000.0
    retry_after: int | None = None
    judge_only: bool = False
    prompts: Sequence[PromptFormat] = ()
    prefix_cache: bool = False
    text_only: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in (("latency_ms", self.latency_ms), ("slow_ms", self.slow_ms)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
        if self.retry_after is not None and self.retry_after < 0:
            raise ValueError(f"retry_after must be at least 0, not {self.retry_after!r}")


_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "judgegym"
_READY = "listening on "
_START_SECONDS = 60.0


class StandIn:
    """Runner of the stand-in server during an `async with` block.

    The server listens on a free port of the loopback interface. It ends with the block, and also
    when this process dies of any cause; a Ctrl-C in the terminal reaches only this process. A
    server that does not start raises `RuntimeError` with what it wrote to standard error.
    """

    def __init__(
        self,
        latency_ms: float = 0.0,
        faults: Mapping[str, float] | None = None,
        *,
        judge_only: bool = False,
        prompts: Sequence[str | PromptFormat] = (),
    ) -> None:
        """Check the settings; start nothing. Arguments are as in `StandInSettings`.

        A prompt is a module-level object or a reference of `load_prompts`.
        """
        # Raises on wrong settings before anything is started.
        StandInSettings(latency_ms, Faults(faults or {}))
        rates = json.dumps(dict(faults or {}))
        self._flags = [f"--latency_ms={latency_ms}", f"--faults={rates}"]
        if judge_only:
            self._flags.append("--judge_only")
        self._flags += [f"--prompt={reference}" for reference in map(make_reference, prompts)]
        self._process: Process | None = None
        self._base_url: str | None = None

    @property
    def base_url(self) -> str:
        """Base URL for an OpenAI client, ending in `/v1`."""
        if self._base_url is None:
            raise RuntimeError("the stand-in is not running: use it in an 'async with' block")
        return self._base_url

    async def __aenter__(self) -> StandIn:
        """Start the server and wait until it listens."""
        if self._process is not None:
            raise RuntimeError("the stand-in is running already")
        # A file, because a pipe that nobody reads would block the server.
        with tempfile.TemporaryFile() as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "judgegym.offline",
                    "--port=0",
                    "--exit_with_parent",
                    *self._flags,
                ),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": _make_search_path()},
                start_new_session=True,
            )
            try:
                self._base_url = await _wait_until_ready(self._process, errors)
            except BaseException:  # any error, also a cancellation: end the child, and raise it
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server and wait for its end."""
        process = self._process
        self._process = None
        self._base_url = None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            process.kill()  # it has nothing to clean up
        await process.communicate()


@asynccontextmanager
async def running_stand_ins(
    judges: Mapping[str, bool],
    faults: Mapping[str, float],
    prompts: Sequence[str | PromptFormat] = (),
) -> AsyncIterator[Mapping[str, str]]:
    """Run a stand-in for each role while the block runs; yield their URLs by role.

    Args:
        judges: the roles, and whether each knows only judges' prompts.
        faults: as in `StandInSettings`, and `latency_ms` among them.
        prompts: prompts of further judges.

    Raises:
        SettingsError: the faults or a prompt are wrong, or a stand-in does not start.
    """
    rates = {**faults}
    latency_ms = rates.pop("latency_ms", 0.0)
    try:
        stand_ins = [
            StandIn(latency_ms, rates, judge_only=is_judge, prompts=prompts)
            for is_judge in judges.values()
        ]
    except ValueError as error:
        names = "--faults or offline_prompts" if prompts else "--faults"
        raise SettingsError(f"{names}: {error}") from error
    async with AsyncExitStack() as stack:
        # All are started at once; when one fails, the others are stopped.
        for result in await asyncio.gather(
            *map(stack.enter_async_context, stand_ins), return_exceptions=True
        ):
            if isinstance(result, RuntimeError):
                raise SettingsError(f"--offline: {result}") from result
            if isinstance(result, BaseException):
                raise result
        yield {role: stand_in.base_url for role, stand_in in zip(judges, stand_ins, strict=True)}


def _make_search_path() -> str:
    """Return this process's search path for the child; the checkout goes first.

    A folder of this package is left out: there `judgegym/statistics` would hide the standard
        library's module.
    """
    entries = [Path(entry).resolve() for entry in sys.path]
    outside = (str(entry) for entry in entries if not entry.is_relative_to(_PACKAGE))
    return os.pathsep.join([str(_ROOT), *outside])


async def _wait_until_ready(process: Process, errors: IO[bytes]) -> str:
    """Wait for the start-up line; return the URL in it."""
    assert process.stdout is not None  # it is a pipe
    line = ""
    with contextlib.suppress(asyncio.TimeoutError):
        line = (
            (await asyncio.wait_for(process.stdout.readline(), _START_SECONDS))
            .decode(errors="replace")
            .strip()
        )
    if line.startswith(_READY):
        return line.removeprefix(_READY)
    errors.seek(0)
    message = errors.read().decode(errors="replace").strip()
    raise RuntimeError(f"the stand-in server did not start: {message or line or 'it said nothing'}")


BACKLOG = 4096  # backlog of connections: a burst of clients must not be refused


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on the host's first address; port 0 lets the system choose.

    Raises:
        OSError: it cannot listen there.
    """
    family, *_, address = socket.getaddrinfo(
        host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)


def make_url(listener: socket.socket) -> str:
    """Return the base URL for a client of this socket."""
    host, port = listener.getsockname()[:2]
    if ":" in host:
        return f"http://[{host}]:{port}/v1"
    return f"http://{host}:{port}/v1"


def stop_on_signals(exit_codes: asyncio.Queue[int]) -> None:
    """End the process on SIGINT and SIGTERM, with the exit codes 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, exit_codes.put_nowait, 128 + number)


def stop_when_input_ends(exit_codes: asyncio.Queue[int]) -> None:
    """End the process with exit code 0 when standard input ends: the parent has died."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 65_536):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(exit_codes.put_nowait, 0)

    threading.Thread(target=wait, name="end-of-input", daemon=True).start()
