"""The child processes of a run: each has its own log, and all end with the block.

Guarantees: no child outlives the block, neither after an error nor after Ctrl-C or SIGTERM, which
reach this process alone, nor after SIGKILL: a minder process with a pipe to this one ends the
others when the pipe breaks. A child that ends too early is one error, which names it and shows the
end of its log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from examples.processes import ROOT, process_variables

T = TypeVar("T")

_GRACE_S = 5.0
_MINDER = f"""
import os, signal, sys, time
groups = [int(line) for line in sys.stdin]  # until the process that writes them is gone
for number in (signal.SIGTERM, signal.SIGKILL):
    for group in groups:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            pass
    time.sleep({_GRACE_S} if number == signal.SIGTERM else 0)
"""
_TAIL = 12  # lines of a log
_LONGEST_LINE = 1 << 20


class ChildFailed(Exception):
    """A child ended too early."""


class Child:
    """A running child."""

    def __init__(self, name: str, process: Process, log: Path, *, ends: bool) -> None:
        self.name = name
        self.process = process
        self.log = log
        self.ends = ends

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of its standard output as they come; they are not in the log."""
        assert self.process.stdout is not None  # it is a pipe
        while line := await self.process.stdout.readline():
            yield line

    def failure(self, problem: str) -> ChildFailed:
        """Return an error about the child, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        return ChildFailed(
            "\n".join(
                [f"{self.name} {problem}; the end of {self.log}:", *(f"  {line}" for line in lines)]
            )
        )


class Children:
    """Starts children, and ends them with the `async with` block."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._minder: Process | None = None

    async def start(
        self, name: str, *words: str, log: Path, ends: bool = False, reads: bool = False
    ) -> Child:
        """Start `python -m WORDS` in the root of the project.

        Args:
            name: the child's name in messages.
            words: the module and its arguments.
            log: the file for standard error, and for standard output unless it is read.
            ends: the child may end by itself, with exit code 0.
            reads: its standard output is read (`Child.lines`), and its standard input ends with
                this process.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as log_file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *words),
                stdin=PIPE if reads else DEVNULL,
                stdout=PIPE if reads else log_file,
                stderr=log_file,
                cwd=ROOT,
                env=process_variables(),
                limit=_LONGEST_LINE,
                start_new_session=True,  # a Ctrl-C reaches only this process, which ends the others
            )
        assert self._minder is not None and self._minder.stdin is not None  # started with the block
        self._minder.stdin.write(b"%d\n" % process.pid)
        child = Child(name, process, log, ends=ends)
        self._children.append(child)
        self._watchers.append(asyncio.create_task(self._watch(child)))
        return child

    async def wait_unless_failed(self, work: Awaitable[T]) -> T:
        """Wait for work, or for the first child that ends too early.

        Raises:
            ChildFailed: a child ended too early.
        """
        task = asyncio.ensure_future(work)
        try:
            both: tuple[asyncio.Future[Any], ...] = (task, self._failed)
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            return await task
        finally:
            task.cancel()
            with suppress(
                asyncio.CancelledError, Exception
            ):  # its error is raised above, or is not the first
                await task

    async def wait_ended(self) -> None:
        """Wait until all children with `ends` have ended."""
        await asyncio.gather(*(child.process.wait() for child in self._children if child.ends))

    async def end(self, children: Sequence[Child]) -> None:
        """End these children, with SIGTERM first."""
        for child in children:
            self._watchers[self._children.index(child)].cancel()
        for number in (signal.SIGTERM, signal.SIGKILL):
            alive = [child for child in children if child.process.returncode is None]
            for child in alive:
                with suppress(ProcessLookupError):
                    os.killpg(child.process.pid, number)
            waiting = [asyncio.create_task(_wait(child)) for child in alive]
            if waiting:
                await asyncio.wait(waiting, timeout=_GRACE_S)

    async def __aenter__(self) -> Children:
        """Start the minder."""
        words = (sys.executable, "-c", _MINDER)
        self._minder = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, start_new_session=True
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all children."""
        await self.end(self._children)
        self._failed.cancel()
        if self._minder is not None:
            self._minder.kill()
            await self._minder.wait()

    async def _watch(self, child: Child) -> None:
        code = await child.process.wait()
        if not (child.ends and code == 0) and not self._failed.done():
            self._failed.set_exception(child.failure(f"ended with exit code {code}"))


async def _wait(child: Child) -> None:
    """Wait for the end of a child whose standard output is no longer read."""
    await child.process.communicate()
