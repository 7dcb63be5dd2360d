"""The stand-in server as a child process of the program that uses it."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from judges.offline.faults import Faults

_ROOT = Path(__file__).resolve().parents[2]
_READY = "listening on "
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0


class StandIn:
    """Runs the stand-in server while the `async with` block runs.

    The server listens on a free port of the loopback interface. It is gone when the block ends, and also when this
    process dies of any cause; a Ctrl-C in the terminal reaches this process only. A server that does not start raises
    `RuntimeError` with what it wrote to standard error.
    """

    def __init__(
        self,
        latency_ms: float = 0.0,
        faults: Faults | Mapping[str, float] | None = None,
        retry_after: int | None = None,
    ) -> None:
        """Settings as in `ServerSettings`, `faults` also as a dict of rates; raises `ValueError` if one is wrong."""
        if not 0 <= latency_ms < float("inf"):
            raise ValueError(f"latency_ms must be a number of at least 0, not {latency_ms!r}")
        if retry_after is not None and retry_after < 0:
            raise ValueError(f"retry_after must be at least 0, not {retry_after!r}")
        checked = faults if isinstance(faults, Faults) else Faults(faults or {})
        self._flags = [f"--latency_ms={latency_ms}", f"--faults={checked.to_json()}"]
        if retry_after is not None:
            self._flags.append(f"--retry_after={retry_after}")
        self._process: Process | None = None
        self._base_url: str | None = None

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client, ending in `/v1`."""
        if self._base_url is None:
            raise RuntimeError("the stand-in is not running: use it in an 'async with' block")
        return self._base_url

    async def stats(self) -> dict[str, Any]:
        """The server's counts: requests, in_flight, peak_in_flight, answers, faults, by_model."""
        import aiohttp

        url = self.base_url.removesuffix("/v1") + "/stats"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            response.raise_for_status()
            counts: dict[str, Any] = await response.json()
            return counts

    async def __aenter__(self) -> "StandIn":
        """Start the server and wait until it listens."""
        if self._process is not None:
            raise RuntimeError("the stand-in is running already")
        # A file, not a pipe: nobody needs to read along for the server not to block.
        with tempfile.TemporaryFile() as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "judges.offline", "--port=0", "--exit_with_parent", *self._flags),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=_ROOT,
                env=_environment(),
                start_new_session=True,
            )
            try:
                self._base_url = await _ready(self._process, errors)
            except BaseException:  # raised on, without the child
                await self._stop()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server and wait for its end."""
        await self._stop()

    async def _stop(self) -> None:
        process, self._process, self._base_url = self._process, None, None
        if process is None:
            return
        _send(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.communicate(), _STOP_SECONDS)
        except asyncio.TimeoutError:
            _send(process, signal.SIGKILL)
            await process.communicate()


def _environment() -> dict[str, str]:
    """This process's environment, with the checkout before everything else on the path."""
    paths = [str(Path(entry).resolve()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *paths])}


async def _ready(process: Process, errors: IO[bytes]) -> str:
    """Wait for the start-up line; returns the URL in it."""
    if process.stdout is None:
        raise RuntimeError("the stand-in has no standard output")
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)).decode(errors="replace").strip()
    except asyncio.TimeoutError:
        line = ""
    if line.startswith(_READY):
        return line.removeprefix(_READY)
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    raise RuntimeError(f"the stand-in server did not start: {said or line or 'it said nothing'}")


def _send(process: Process, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
