"""Sequences whose items are made on access, so that memory does not hold them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT")


class LazySequence(Sequence[ItemT], Generic[ItemT]):
    """Sequence whose subclasses define `__len__` and `read`."""

    @abstractmethod
    def read(self, index: int) -> ItemT:
        """Make the item at an index from 0."""

    @overload
    def __getitem__(self, index: int) -> ItemT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, index: int | slice) -> ItemT | Sequence[ItemT]:
        """Make an item, or several."""
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self.read(place) for place in places]
        return self.read(places)

    def __iter__(self) -> Iterator[ItemT]:
        """Make all items, one after the other."""
        return map(self.read, range(len(self)))


class LazyMap(LazySequence[ItemT], Generic[KeyT, ItemT]):
    """Results of a function on each item of another sequence."""

    def __init__(self, keys: Sequence[KeyT], make: Callable[[KeyT], ItemT]) -> None:
        """Make nothing yet."""
        self._keys, self._make = keys, make

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self._keys)

    def read(self, index: int) -> ItemT:
        """See `LazySequence`."""
        return self._make(self._keys[index])
