"""SIGINT and SIGTERM cancel a command, which ends with the exit code that a shell expects."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal(BaseException):
    """A signal stopped the command; no handler of errors on its way takes it for one."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


async def until_stopped(command: Coroutine[Any, Any, int]) -> int:
    """Run a command; SIGINT and SIGTERM cancel it at once.

    Raises:
        StopSignal: a signal cancelled the command.
    """
    task = asyncio.ensure_future(command)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise StopSignal(received[0]) from None
        raise


@contextmanager
def interruptible(*, is_profiled: bool) -> Iterator[None]:
    """Let a signal end the process at once, because the event loop handles none while datasets are loaded.

    A process that is profiled ends with `StopSignal`, so that its profile is written: as soon as C code returns.
    """

    def stop(number: int, _: object) -> None:
        raise StopSignal(number)

    handlers = {number: signal.signal(number, stop if is_profiled else signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
