"""The tasks of a dataset, built when they are asked for, and the orders and choices of them.

Guarantees: each task is built once before the list is there, so that a row that cannot be read is
an error before the first call; after that memory holds the tasks' uids and the places of their
rows, and no text of them. A plain list of tasks serves in the same places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar, overload

from judgegym.data.rows import Row, TaskT
from judgegym.judges.core.seeding import derive_seed


class TaskLike(Protocol):
    """What an item of a `TaskList` has."""

    @property
    def uid(self) -> str:
        """The id, unique in the list."""


ItemT = TypeVar("ItemT", bound=TaskLike)
OtherT = TypeVar("OtherT", bound=TaskLike)


_NAMED = ("category", "cluster")
"""The fields of a task whose texts metrics are named for."""


class TaskList(Sequence[ItemT], Generic[ItemT]):
    """Tasks in the order of their rows; each is built anew whenever it is asked for.

    Attributes:
        uids: their uids.
        named: the categories and clusters of all tasks of the data set, also of those that a choice
            leaves out.
    """

    def __init__(
        self,
        uids: Sequence[str],
        build: Callable[[int], ItemT],
        group_names: Collection[str] = (),
        places: Sequence[int] | None = None,
    ) -> None:
        """Name the tasks.

        Args:
            uids: their uids, each once.
            build: makes the task at a place from 0; the same one whenever it is called.
            group_names: their categories and clusters.
            places: the place of each task, for a choice of the tasks that `build` makes; all of
                them by default.
        """
        self.uids = uids
        self.group_names = group_names
        self._build = build
        self._places = range(len(uids)) if places is None else places

    @classmethod
    def from_rows(
        cls, rows: Mapping[str, Row], build: Callable[[str, Row], ItemT]
    ) -> TaskList[ItemT]:
        """Make a task of each row.

        Args:
            rows: by uid, as `by_uid` returns them.
            build: makes the task of a uid and its row; the same one whenever it is called.

        Raises:
            DataError: `build` could not use a row.
        """
        return cls.expand_rows(rows, lambda uid, row: (build(uid, row),))

    @classmethod
    def expand_rows(
        cls, rows: Mapping[str, Row], build: Callable[[str, Row], Sequence[ItemT]]
    ) -> TaskList[ItemT]:
        """Make any number of tasks of each row, also none.

        Args:
            rows: by uid, as `by_uid` returns them.
            build: makes the tasks of a uid and its row, with uids of their own; the same ones
                whenever it is called.

        Raises:
            DataError: `build` could not use a row.
        """
        uids: list[str] = []
        owners: list[str] = []
        numbers = array("I")
        group_names: set[str] = set()
        for uid, row in rows.items():
            for number, task in enumerate(build(uid, row)):
                uids.append(uid if task.uid == uid else task.uid)  # one string for both lists
                owners.append(uid)
                numbers.append(number)
                group_names.update(_names_in(task))
        return cls(
            uids,
            lambda index: build(owners[index], rows[owners[index]])[numbers[index]],
            group_names,
        )

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self.uids)

    @overload
    def __getitem__(self, index: int) -> ItemT: ...
    @overload
    def __getitem__(self, index: slice) -> TaskList[ItemT]: ...
    def __getitem__(self, index: int | slice) -> ItemT | TaskList[ItemT]:
        """Build the task at an index, or make a list of a part of the tasks.

        Raises:
            DataError: the file of its row has changed.
        """
        if isinstance(index, slice):
            return self.pick(range(*index.indices(len(self))))
        return self._build(self._places[index])

    def pick(self, indexes: Iterable[int]) -> TaskList[ItemT]:
        """Make a list of the tasks at `indexes`, in their order."""
        chosen = array("Q", indexes)
        places = array("Q", (self._places[index] for index in chosen))
        return TaskList(
            [self.uids[index] for index in chosen], self._build, self.group_names, places
        )

    def where(self, is_wanted: Callable[[ItemT], bool]) -> TaskList[ItemT]:
        """Make a list of the tasks that are wanted."""
        return self.pick(index for index, task in enumerate(self) if is_wanted(task))

    def map(self, convert: Callable[[ItemT], OtherT]) -> TaskList[OtherT]:
        """Make a list of what `convert` makes of each task, under the same uid."""
        build = self._build
        return TaskList(
            self.uids, lambda place: convert(build(place)), self.group_names, self._places
        )

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The index of each uid."""
        return {uid: index for index, uid in enumerate(self.uids)}


def _names_in(task: object) -> list[str]:
    names = (getattr(task, field, None) for field in _NAMED)
    return [name for name in names if isinstance(name, str)]


def list_groups(tasks: Sequence[TaskT]) -> Collection[str]:
    """Return the categories and clusters of tasks; those of a `TaskList` without building a task."""
    return (
        tasks.group_names
        if isinstance(tasks, TaskList)
        else {name for task in tasks for name in _names_in(task)}
    )


def list_uids(tasks: Sequence[TaskT]) -> Sequence[str]:
    """Return the uids of tasks, in their order; those of a `TaskList` without building a task."""
    return tasks.uids if isinstance(tasks, TaskList) else [task.uid for task in tasks]


def index_uids(tasks: Sequence[TaskT]) -> Mapping[str, int]:
    """Return the index of each task by its uid; of a `TaskList` one mapping for all who ask."""
    if isinstance(tasks, TaskList):
        return tasks.positions
    return {task.uid: index for index, task in enumerate(tasks)}


def pick_tasks(tasks: Sequence[TaskT], indexes: Iterable[int]) -> Sequence[TaskT]:
    """Return the tasks at `indexes`, in their order; those of a `TaskList` are not built."""
    return (
        tasks.pick(indexes) if isinstance(tasks, TaskList) else [tasks[index] for index in indexes]
    )


def select(tasks: Sequence[TaskT], *, limit: int | None, seed: int) -> Sequence[TaskT]:
    """`limit` tasks in their own order; the choice depends on the seed and their ids only."""
    if limit is None or limit >= len(tasks):
        return tasks
    return pick_tasks(tasks, sorted(_shuffle_indexes(tasks, seed, "limit")[:limit]))


def epoch_order(tasks: Sequence[TaskT], *, seed: int, epoch: int) -> Sequence[TaskT]:
    """Return the tasks in the order of one epoch, which depends on the seed, the epoch and their ids only."""
    return pick_tasks(tasks, _shuffle_indexes(tasks, seed, f"epoch {epoch}"))


def _shuffle_indexes(tasks: Sequence[TaskT], seed: int, purpose: str) -> list[int]:
    """Return the indexes of all tasks, shuffled for a purpose."""
    uids = list_uids(tasks)
    return sorted(
        range(len(uids)), key=lambda index: (derive_seed(seed, uids[index], purpose), uids[index])
    )
