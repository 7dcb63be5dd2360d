"""Threads in the place of the processes of a training run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores import groups


class Processes:
    """`torch.distributed` for threads in the place of processes, each with a number."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._own = threading.local()
        self._groups: list[list[Any]] = []
        self._lock = threading.Lock()

    def be(self, rank: int) -> None:
        self._own.rank = rank
        self._own.groups = 0

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_world_size(self) -> int:
        return self._count

    def get_rank(self) -> int:
        return int(self._own.rank)

    def new_group(self, *, backend: str, timeout: timedelta) -> object:
        number, self._own.groups = self._own.groups, self._own.groups + 1
        with self._lock:
            while len(self._groups) <= number:
                self._groups.append([threading.Barrier(self._count, timeout=30), {}])
        return (self.get_rank(), *self._groups[number])

    def all_gather_object(self, object_list: list[Any], obj: object, group: Any) -> None:
        rank, barrier, given = group
        given[rank] = obj
        barrier.wait()
        object_list[:] = [given[each] for each in range(self._count)]
        barrier.wait()


async def in_processes(
    calls: list[Callable[[], Awaitable[Any]]], monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """What each process gets of its call; a `SettingsError` in its place."""
    processes = Processes(len(calls))
    monkeypatch.setattr(groups, "find_distributed", lambda: processes)

    async def called(rank: int) -> object:
        return await calls[rank]()

    def process(rank: int) -> object:
        processes.be(rank)
        try:
            return asyncio.run(called(rank))
        except SettingsError as error:
            return error

    return await asyncio.gather(*(asyncio.to_thread(process, rank) for rank in range(len(calls))))
