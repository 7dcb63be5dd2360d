"""Run all rows of an evaluation, with a limit on rows in flight, and append each sample to the run directory.

Stops early if nothing succeeds: an endpoint is down or refuses the requests, and further rows would cost money for
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TypeAlias

from environments.base import DetailT
from environments.data.rows import TaskT
from environments.records import Sample
from environments.runs.directory import FAILURES, SAMPLES, RunDirectory
from environments.runs.failure_guard import HOPELESS_AFTER, NothingSucceeds
from environments.runs.ledger import CallLedger
from judges.llm.ledger import recorded_in

Finish: TypeAlias = Callable[[TaskT], Awaitable[Sample[DetailT]]]


async def finish_rows(
    tasks: Sequence[TaskT],
    finish: Finish[TaskT, DetailT],
    *,
    is_complete: Callable[[Sample[DetailT]], bool],
    finished: Mapping[str, Sample[DetailT]],
    run: RunDirectory,
    ledger: CallLedger,
    in_flight: int,
    arrived: list[tuple[TaskT, Sample[DetailT]]],
) -> list[Sample[DetailT]]:
    """Finish the rows that an earlier run has not finished.

    Args:
        tasks: all rows.
        finish: finishes a row, as `RowRunner.finish` does; a failure is a sample, not an exception.
        is_complete: whether a resumed run has nothing to add to a row.
        finished: the rows that an earlier run has finished, by uid.
        run: the run directory.
        ledger: the calls of this run and of the earlier one.
        in_flight: rows in progress at once; the endpoints have limits of their own.
        arrived: each row with its new sample is appended here once its line is written; the progress display reads it.

    Returns:
        The samples of all rows, in the order of `tasks`.

    Raises:
        NothingSucceeds: ten rows failed before one was finished, and so did the rows in progress with them. Their
            samples are on disk.
        DiskFull: the run directory could not be written to for too long.
    """
    missing = [task for task in tasks if task.uid not in finished]
    failures, is_hopeless = 0, False
    rows = iter(missing)

    async def worker() -> None:
        nonlocal failures, is_hopeless
        for task in rows:
            await run.disk.ready()
            calls = ledger.row(task.uid)
            with recorded_in(calls):
                sample = await finish(task)
            if not is_complete(sample):
                calls.failed()
            run.append(SAMPLES if sample.finished else FAILURES, sample.to_line())
            arrived.append((task, sample))
            failures += not sample.finished
            is_hopeless = not finished and failures == len(arrived) >= min(HOPELESS_AFTER, len(missing))
            if is_hopeless:
                return  # begin no further rows; one that is in progress may still succeed

    while len(arrived) < len(missing):
        await _all_of(worker() for _ in range(min(in_flight, len(missing) - len(arrived))))
        if is_hopeless:
            raise NothingSucceeds(arrived[-1][1].error or "no row has a score")
    samples = {**{task.uid: sample for task, sample in arrived}, **finished}
    return [samples[task.uid] for task in tasks]


async def _all_of(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run workers to their end; if one raises, or we are cancelled, none is left running."""
    running = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
