"""Order of the rows in training: shuffled by seed and epoch, and resumed from a checkpoint.

With `RowWeights`, rows that teach nothing are drawn less often. A row is flat if the rewards of its
last groups were all equal, so that their advantages were zero: it is too easy or too hard. A flat
row is handed out in a share of the epochs, chosen by seed, row and epoch; it is handed out in each
epoch again as soon as one of its groups has unequal rewards.

Sources: DAPO's dynamic sampling (Yu et al., 2025), which draws groups until enough have a signal;
prime-rl's pools of easy and hard rows, from which few are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from judgegym.data.rows import TaskT
from judgegym.data.task_list import epoch_order, index_uids, list_uids
from judgegym.engine.settings import EnvConfig
from judgegym.judges.core.seeding import derive_seed
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_HASH_RANGE = float(2**64)


@dataclass(frozen=True, slots=True)
class RowWeights:
    """Frequency with which rows without a signal are drawn.

    Attributes:
        flat_share: the share of the epochs in which a flat row is handed out, from 0 (exclusive) to
            1.
        flat_after: number of consecutive groups with equal rewards that make a row flat.
    """

    flat_share: float = 0.25
    flat_after: int = 2

    @classmethod
    def from_config(cls, config: EnvConfig) -> RowWeights | None:
        """Return the weights of the settings; `None` if all rows are drawn equally often.

        Raises:
            SettingsError: the group size is 1: such groups have no variance.
        """
        if config.row_weights != "equal" and config.group_size < 2:
            raise SettingsError(
                "--env.row_weights=signal: expected --env.group_size of 2 or more: it compares "
                "rewards"
            )
        if config.row_weights == "equal":
            return None
        return cls()


class EpochSampler(Generic[TaskT]):
    """Sampler of rows that tracks those in progress: a checkpoint neither repeats nor loses a row.

    Attributes:
        skipped: how often a flat row was not handed out, since this process began.
    """

    def __init__(
        self, tasks: Sequence[TaskT], seed: int, weights: RowWeights | None = None
    ) -> None:
        """Begin the first epoch.

        Args:
            tasks: the rows.
            seed: seed of the order, and of the epochs in which flat rows are handed out.
            weights: how often flat rows are drawn; `None`: as often as others.

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
        self._unfinished: list[TaskT] = []
        self._in_progress: dict[str, int] = {}
        self._weights = weights
        self._flat_counts: dict[str, int] = {}
        """By row: number of its last groups in a row with equal rewards, if any."""
        self.skipped = 0

    def next(self) -> TaskT:
        """Return the next row: first the unfinished rows of a checkpoint."""
        if self._unfinished:
            task = self._unfinished.pop(0)
        else:
            for left in range(len(self._tasks), -1, -1):
                if self._position == len(self._rows):
                    self._epoch, self._position = self._epoch + 1, 0
                    self._rows = epoch_order(self._tasks, seed=self._seed, epoch=self._epoch)
                index, self._position = self._position, self._position + 1
                if (
                    self._weights is None
                    or not left
                    or not self._is_skipped(list_uids(self._rows)[index])
                ):
                    break  # of rows that are all skipped one is handed out after an epoch
                self.skipped += 1
            task = self._rows[index]
        self._in_progress[task.uid] = self._in_progress.get(task.uid, 0) + 1
        return task

    def record(self, uid: str, *, is_flat: bool) -> int | None:
        """Record whether the rewards of a judged group were all equal.

        Returns:
            Number of the row's last groups with equal rewards, if that has changed and rows have
                weights; else `None`.
        """
        before = self._flat_counts.pop(uid, 0)
        if self._weights is None:
            return None
        if is_flat:
            self._flat_counts[uid] = before + 1
        if is_flat or before:
            return self._flat_counts.get(uid, 0)
        return None

    def restore_flat(self, uid: str, groups: int) -> None:
        """Restore a value that `record` has returned to an earlier process of the same run."""
        self._flat_counts[uid] = groups

    @property
    def flat_rows(self) -> int:
        """Number of rows that are flat now."""
        weights = self._weights
        if weights is None:
            return 0
        return sum(groups >= weights.flat_after for groups in self._flat_counts.values())

    def _is_skipped(self, uid: str) -> bool:
        weights = self._weights
        if weights is None or self._flat_counts.get(uid, 0) < weights.flat_after:
            return False
        return (
            derive_seed(self._seed, uid, f"flat row in epoch {self._epoch}") / _HASH_RANGE
            >= weights.flat_share
        )

    @property
    def position(self) -> tuple[int, int]:
        """Epoch, and the number of its rows that were handed out."""
        return self._epoch, self._position

    def ack(self, task: TaskT) -> None:
        """Mark a row as sent or dropped."""
        left = self._in_progress.get(task.uid, 0) - 1
        if left > 0:
            self._in_progress[task.uid] = left
        else:
            self._in_progress.pop(task.uid, None)

    def state_dict(self) -> dict[str, JSON]:
        """Return the position in the order, and the earlier rows that are not finished."""
        unfinished: list[str] = []
        for uid, times in self._in_progress.items():
            unfinished += [uid] * times
        waiting = [task.uid for task in self._unfinished]
        state: dict[str, JSON] = {
            "seed": self._seed,
            "epoch": self._epoch,
            "position": self._position,
            "unfinished": [*unfinished, *waiting],
        }
        if self._weights is not None:
            state["equal"] = dict(self._flat_counts)
        return state

    def load_state_dict(self, state: Mapping[str, JSON]) -> None:
        """Resume from a checkpoint's state; rows that are no longer in the data set are left out.

        Raises:
            ValueError: it is no such state, or its order has another seed.
        """
        epoch = state.get("epoch")
        position = state.get("position")
        unfinished = state.get("unfinished")
        if (
            not isinstance(epoch, int)
            or not isinstance(position, int)
            or not isinstance(unfinished, list)
        ):
            content = dict(state)
            raise ValueError(f"not the state of a row order: {content}")
        seed = state.get("seed")
        if seed != self._seed:
            raise ValueError(f"it is of an order with the seed {seed}, not {self._seed}")
        self._epoch = epoch
        self._rows = epoch_order(self._tasks, seed=self._seed, epoch=epoch)
        self._position = min(position, len(self._rows))
        positions = index_uids(self._tasks)
        self._unfinished = []
        for uid in unfinished:
            if isinstance(uid, str) and uid in positions:
                self._unfinished.append(self._tasks[positions[uid]])
        self._in_progress = {}
        if isinstance(equal := state.get("equal"), Mapping):
            self._flat_counts = {
                uid: groups for uid, groups in equal.items() if isinstance(groups, int)
            }
