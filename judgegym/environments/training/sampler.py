"""The order of the rows in training: shuffled by seed and epoch, and resumed from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from judgegym.data.rows import TaskT
from judgegym.data.task_list import epoch_order, positions_of
from judgegym.llm.wire import JSON


class EpochSampler(Generic[TaskT]):
    """Hands out rows, and tracks those in progress, so that a checkpoint neither repeats nor loses one."""

    def __init__(self, tasks: Sequence[TaskT], seed: int) -> None:
        """Begin the first epoch.

        Raises:
            ValueError: there are no tasks.
        """
        if not tasks:
            raise ValueError("an order needs at least one row")
        self._tasks = tasks
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._rows = epoch_order(tasks, seed=seed, epoch=0)
        self._again: list[TaskT] = []
        self._under_way: dict[str, int] = {}

    def next(self) -> TaskT:
        """Return the next row: first the unfinished rows of a checkpoint."""
        if self._again:
            task = self._again.pop(0)
        else:
            if self._position == len(self._rows):
                self._epoch, self._position = self._epoch + 1, 0
                self._rows = epoch_order(self._tasks, seed=self._seed, epoch=self._epoch)
            task = self._rows[self._position]
            self._position += 1
        self._under_way[task.uid] = self._under_way.get(task.uid, 0) + 1
        return task

    @property
    def place(self) -> tuple[int, int]:
        """The epoch, and how many of its rows were handed out."""
        return self._epoch, self._position

    def ack(self, task: TaskT) -> None:
        """Mark a row as sent or dropped."""
        left = self._under_way.get(task.uid, 0) - 1
        if left > 0:
            self._under_way[task.uid] = left
        else:
            self._under_way.pop(task.uid, None)

    def state_dict(self) -> dict[str, JSON]:
        """Return the position in the order, and the rows before it that are not finished."""
        unfinished = [uid for uid, times in self._under_way.items() for _ in range(times)]
        waiting = [task.uid for task in self._again]
        return {
            "seed": self._seed,
            "epoch": self._epoch,
            "position": self._position,
            "unfinished": [*unfinished, *waiting],
        }

    def load_state_dict(self, state: Mapping[str, JSON]) -> None:
        """Resume from a checkpoint's state; rows that are no longer in the dataset are left out.

        Raises:
            ValueError: it is not such a state, or one of an order with another seed.
        """
        epoch, position, unfinished = state.get("epoch"), state.get("position"), state.get("unfinished")
        if not isinstance(epoch, int) or not isinstance(position, int) or not isinstance(unfinished, list):
            raise ValueError(f"not the state of a row order: {dict(state)}")
        if state.get("seed") != self._seed:
            raise ValueError(f"it is of an order with the seed {state.get('seed')}, not {self._seed}")
        self._epoch = epoch
        self._rows = epoch_order(self._tasks, seed=self._seed, epoch=epoch)
        self._position = min(position, len(self._rows))
        positions = positions_of(self._tasks)
        self._again = [self._tasks[positions[uid]] for uid in unfinished if isinstance(uid, str) and uid in positions]
        self._under_way = {}


# They shape the requests of Atropos' clients, which are not used; our own clients read them from our settings.
