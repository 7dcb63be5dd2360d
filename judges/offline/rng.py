"""Choices that depend on a key and on nothing else: the same in each process and each version of Python."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def unit(key: str | bytes) -> float:
    """A number in [0, 1) drawn from the key; different keys give independent numbers."""
    data = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    return (int.from_bytes(hashlib.sha256(data).digest()[:8], "big") >> 11) / 2**53


class Dice:
    """A stream of choices that its key determines."""

    def __init__(self, key: bytes) -> None:
        """A stream from its beginning; equal keys give equal streams."""
        self._key = hashlib.sha256(key).digest()
        self._drawn = 0

    def unit(self) -> float:
        """The next number in [0, 1)."""
        self._drawn += 1
        return unit(self._key + self._drawn.to_bytes(8, "big"))

    def between(self, low: float, high: float) -> float:
        """The next number in [low, high)."""
        return low + (high - low) * self.unit()

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, each equally likely."""
        return options[int(self.unit() * len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in an order of their own."""
        return [option for _, option in sorted(((self.unit(), option) for option in options), key=lambda pair: pair[0])]
