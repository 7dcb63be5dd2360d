"""The processes of a distributed training run, which share one global batch.

TRL lays groups out over the global batch, so that a process may hold a part of one. Here every process gives its part
and gets those of all. torch is not imported: it is used if the trainer has loaded it and set up its process group.

Source: TRL 1.16, `GRPOTrainer`; torch 2.13, `torch.distributed`.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

PartT = TypeVar("PartT")

_PATIENCE = timedelta(hours=6)
"""How long a process waits for the judgments of another one, which have deadlines of their own."""


class ProcessGroup(Protocol):
    """What is used of `torch.distributed`."""

    def is_available(self) -> bool:
        """Whether torch was built with it."""

    def is_initialized(self) -> bool:
        """Whether the trainer has set up its process group."""

    def get_world_size(self) -> int:
        """The number of processes."""

    def get_rank(self) -> int:
        """The number of this process, from 0."""

    def new_group(self, *, backend: str, timeout: timedelta) -> object:
        """A further process group; all processes call this in the same order."""

    def all_gather_object(self, object_list: list[Any], obj: object, group: object) -> None:
        """Fill `object_list` with the objects of all processes."""


class Ranks:
    """All processes of a run, for one reward function.

    Each has a process group of its own: two reward functions that run at the same time cannot take each other's parts.
    """

    def __init__(self, distributed: ProcessGroup) -> None:
        """Join the other processes, each of which does the same: all make their first call in the same order."""
        self._distributed = distributed
        self.count = distributed.get_world_size()
        self.own = distributed.get_rank()
        # gloo sends objects from the CPU, whatever the trainer's backend is.
        self._group = distributed.new_group(backend="gloo", timeout=_PATIENCE)

    async def gather(self, part: PartT) -> list[PartT]:
        """The parts of all processes, in the order of their numbers."""
        return await asyncio.to_thread(self._gather, part)

    def _gather(self, part: PartT) -> list[PartT]:
        parts: list[PartT | None] = [None] * self.count
        self._distributed.all_gather_object(parts, part, self._group)
        return cast("list[PartT]", parts)


def distributed() -> ProcessGroup | None:
    """`torch.distributed`, if the trainer runs in several processes."""
    module = cast("ProcessGroup | None", sys.modules.get("torch.distributed"))
    if module is None or not module.is_available() or not module.is_initialized() or module.get_world_size() < 2:
        return None
    return module
