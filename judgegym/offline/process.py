"""The stand-in server as a child process of the program that uses it."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.offline.faults import Faults
from judgegym.offline.known import reference_of
from judgegym.offline.settings import StandInSettings

_ROOT = Path(__file__).resolve().parents[2]
_READY = "listening on "
_START_SECONDS = 60.0


class StandIn:
    """Runs the stand-in server while the `async with` block runs.

    The server listens on a free port of the loopback interface. It is gone when the block ends, and also when this
    process dies of any cause; a Ctrl-C in the terminal reaches this process only. A server that does not start raises
    `RuntimeError` with what it wrote to standard error.
    """

    def __init__(
        self,
        latency_ms: float = 0.0,
        faults: Mapping[str, float] | None = None,
        *,
        judge_only: bool = False,
        prompts: Sequence[str | PromptFormat] = (),
    ) -> None:
        """Settings as in `StandInSettings`; a prompt is a module-level object or a reference of `load_prompt`."""
        StandInSettings(latency_ms, Faults(faults or {}))  # raises on wrong settings before anything is started
        self._flags = [f"--latency_ms={latency_ms}", f"--faults={json.dumps(dict(faults or {}))}"]
        if judge_only:
            self._flags.append("--judge_only")
        self._flags += [f"--prompt={reference_of(prompt)}" for prompt in prompts]
        self._process: Process | None = None
        self._base_url: str | None = None

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client, ending in `/v1`."""
        if self._base_url is None:
            raise RuntimeError("the stand-in is not running: use it in an 'async with' block")
        return self._base_url

    async def __aenter__(self) -> "StandIn":
        """Start the server and wait until it listens."""
        if self._process is not None:
            raise RuntimeError("the stand-in is running already")
        # A file, because a pipe that nobody reads would block the server.
        with tempfile.TemporaryFile() as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "judgegym.offline", "--port=0", "--exit_with_parent", *self._flags),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": _search_path()},
                start_new_session=True,
            )
            try:
                self._base_url = await _ready(self._process, errors)
            except BaseException:  # any error, also a cancellation: end the child, and raise it
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server and wait for its end."""
        process, self._process, self._base_url = self._process, None, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            process.kill()  # it has nothing to clean up
        await process.communicate()


def _search_path() -> str:
    """This process's, so that the child finds every module that is found here; the checkout goes first."""
    return os.pathsep.join([str(_ROOT), *(str(Path(entry).resolve()) for entry in sys.path)])


async def _ready(process: Process, errors: IO[bytes]) -> str:
    """Wait for the start-up line; returns the URL in it."""
    assert process.stdout is not None  # it is a pipe
    line = ""
    with contextlib.suppress(asyncio.TimeoutError):
        line = (await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)).decode(errors="replace").strip()
    if line.startswith(_READY):
        return line.removeprefix(_READY)
    errors.seek(0)
    message = errors.read().decode(errors="replace").strip()
    raise RuntimeError(f"the stand-in server did not start: {message or line or 'it said nothing'}")
