"""Work beside the event loop that does not hold up the end of the command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Do work in a thread of its own, which ends with the process, as those of `asyncio.to_thread` do not."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[ResultT] = loop.create_future()

    def settle(value: ResultT | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        value, failure = None, None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:  # the command has ended
            return

    threading.Thread(target=run, daemon=True).start()
    return await result
