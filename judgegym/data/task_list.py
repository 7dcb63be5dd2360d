"""Tasks of a dataset, built on demand, with their orders and selections.

Guarantees: each task is built once before the list exists, so that a row that cannot be read is an
error before the first call. After that memory holds only the tasks' uids and the places of their
rows. A plain list of tasks can be used instead.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Generic, Protocol, TypeVar, overload

from judgegym.data.rows import Row, TaskT
from judgegym.judges.core.seeding import derive_seed


class TaskLike(Protocol):
    """Protocol of the items of a `TaskList`."""

    @property
    def uid(self) -> str:
        """The id, unique in the list."""


ItemT = TypeVar("ItemT", bound=TaskLike)
OtherT = TypeVar("OtherT", bound=TaskLike)


_NAMED = ("category", "cluster")
"""The fields of a task whose texts metrics are named for."""


class TaskList(Sequence[ItemT], Generic[ItemT]):
    """Tasks in the order of their rows, built anew on each access.

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
        """Store the uids and the builder of the tasks.

        Args:
            uids: the tasks' uids, each once.
            build: builds the task at an index from 0, the same one in every call.
            group_names: the tasks' categories and clusters.
            places: the indexes of selected tasks among those that `build` makes; all by default.
        """
        self.uids = uids
        self.group_names = group_names
        self._build = build
        if places is None:
            places = range(len(uids))
        self._places = places

    @classmethod
    def from_rows(
        cls, rows: Mapping[str, Row], build: Callable[[str, Row], ItemT]
    ) -> TaskList[ItemT]:
        """Make a task of each row.

        Args:
            rows: by uid, as `by_uid` returns them.
            build: builds the task of a uid and its row, the same one in every call.

        Raises:
            DataError: `build` could not use a row.
        """
        return cls.expand_rows(rows, lambda uid, row: (build(uid, row),))

    @classmethod
    def expand_rows(
        cls, rows: Mapping[str, Row], build: Callable[[str, Row], Sequence[ItemT]]
    ) -> TaskList[ItemT]:
        """Make any number of tasks of each row, or none.

        Args:
            rows: by uid, as `by_uid` returns them.
            build: builds the tasks of a uid and its row, with their own uids, the same ones in
                every call.

        Raises:
            DataError: `build` could not use a row.
        """
        uids: list[str] = []
        owners: list[str] = []
        numbers = array("I")
        group_names: set[str] = set()
        for uid, row in rows.items():
            for number, task in enumerate(build(uid, row)):
                # Both lists share one string.
                uids.append(uid if task.uid == uid else task.uid)
                owners.append(uid)
                numbers.append(number)
                group_names.update(_names_in(task))
        return cls(
            uids,
            lambda index: build(owners[index], rows[owners[index]])[numbers[index]],
            group_names,
        )

    def __len__(self) -> int:
        """Return how many tasks there are."""
        return len(self.uids)

    @overload
    def __getitem__(self, index: int) -> ItemT: ...
    @overload
    def __getitem__(self, index: slice) -> TaskList[ItemT]: ...
    def __getitem__(self, index: int | slice) -> ItemT | TaskList[ItemT]:
        """Build the task at an index, or make a list of a slice.

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
        """Make a list of the tasks for which `is_wanted` is true."""
        return self.pick(index for index, task in enumerate(self) if is_wanted(task))

    def map(self, convert: Callable[[ItemT], OtherT]) -> TaskList[OtherT]:
        """Make a list of the converted tasks, under the same uids."""
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
    """Return the categories and clusters of tasks, without building those of a `TaskList`."""
    if isinstance(tasks, TaskList):
        return tasks.group_names
    return {*chain.from_iterable(map(_names_in, tasks))}


def list_uids(tasks: Sequence[TaskT]) -> Sequence[str]:
    """Return the uids of tasks in order, without building those of a `TaskList`."""
    if isinstance(tasks, TaskList):
        return tasks.uids
    return [task.uid for task in tasks]


def index_uids(tasks: Sequence[TaskT]) -> Mapping[str, int]:
    """Return the index of each task by uid; a `TaskList` shares one mapping."""
    if isinstance(tasks, TaskList):
        return tasks.positions
    return {task.uid: index for index, task in enumerate(tasks)}


def pick_tasks(tasks: Sequence[TaskT], indexes: Iterable[int]) -> Sequence[TaskT]:
    """Return the tasks at `indexes`, in that order, without building those of a `TaskList`."""
    if isinstance(tasks, TaskList):
        return tasks.pick(indexes)
    return [tasks[index] for index in indexes]


def select(tasks: Sequence[TaskT], *, limit: int | None, seed: int) -> Sequence[TaskT]:
    """Select `limit` tasks in their own order; the choice depends on seed and ids only."""
    if limit is None or limit >= len(tasks):
        return tasks
    return pick_tasks(tasks, sorted(_shuffle_indexes(tasks, seed, "limit")[:limit]))


def epoch_order(tasks: Sequence[TaskT], *, seed: int, epoch: int) -> Sequence[TaskT]:
    """Return the tasks in the order of one epoch.

    It depends on the seed, the epoch and their ids only.
    """
    return pick_tasks(tasks, _shuffle_indexes(tasks, seed, f"epoch {epoch}"))


def _shuffle_indexes(tasks: Sequence[TaskT], seed: int, purpose: str) -> list[int]:
    """Return the indexes of all tasks, shuffled for a purpose."""
    uids = list_uids(tasks)
    return sorted(
        range(len(uids)), key=lambda index: (derive_seed(seed, uids[index], purpose), uids[index])
    )
