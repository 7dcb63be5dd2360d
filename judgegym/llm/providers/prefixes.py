"""Beginnings that several requests share: the first request writes one to the endpoint's prefix cache, others read it.

Some APIs cache only what a request marks, at the price of writing it, and a cache has it once the
first response has begun. So a request whose prompt begins as those of others do marks where the
common part ends, and waits until the first one of them is answered; the rest then leave at once. If
the first one fails, nobody waits any longer.

Which requests belong together is seen from their texts: those that are open or were open within the
last minutes. Judges' prompts begin with what the completions of a row share, and equal prompts
(votes, several completions of a policy) are shared as a whole. A common part counts if enough
requests share enough of it; nested ones (instructions of all rows, the question of one row) are
marked each. Guarantee: what a request marks changes nothing of its text.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, insort
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

_CHARACTERS_OF_A_TOKEN = 4
_LIVES_S = 300.0
"""An entry of the cache lives so long after its last use."""
_GATHERING_S = 0.01
"""A request with a prompt that is long enough waits so long for others that are made at the same time."""
_NEIGHBOURS = 32
_MOST_TEXTS = 1024
_MOST_MARKS = 4
_READ_SAVES, _WRITE_COSTS = 0.9, 0.25


@dataclass(slots=True)
class _Prefix:
    used_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_cached(self) -> bool:
        return time.monotonic() - self.used_at < _LIVES_S


class SharedPrefixes:
    """The prompts of one model's requests."""

    def __init__(self, shortest_tokens: int) -> None:
        """Mark nothing that has fewer than about this many tokens."""
        self._shortest = shortest_tokens * _CHARACTERS_OF_A_TOKEN
        self._texts: list[str] = []  # sorted: the texts that begin most alike are neighbours
        self._recent: deque[tuple[float, str]] = deque()
        self._prefixes: OrderedDict[int, _Prefix] = OrderedDict()

    @asynccontextmanager
    async def turn(self, text: str) -> AsyncIterator[tuple[int, ...]]:
        """Wait until a request may leave; the block sends it.

        Args:
            text: all that a cache compares, in its order.

        Returns:
            Where the beginnings of the text end that the request is to mark.
        """
        if len(text) < self._shortest:
            yield ()
            return
        insort(self._texts, text)
        try:
            await asyncio.sleep(_GATHERING_S)
            marks = self._find_marks(text)
            async with AsyncExitStack() as writing:
                for end in marks:
                    await writing.enter_async_context(self._write_prefix(hash(text[:end])))
                yield marks
        finally:
            self._recent.append((time.monotonic(), text))
            self._forget()

    @asynccontextmanager
    async def _write_prefix(self, name: int) -> AsyncIterator[None]:
        """Wait until a prefix is in the cache, or write it."""
        prefix = self._prefixes.setdefault(name, _Prefix())
        self._prefixes.move_to_end(name)
        async with AsyncExitStack() as writing:
            if not prefix.is_cached:
                await writing.enter_async_context(prefix.lock)
                if prefix.is_cached:  # another request has written it
                    await writing.aclose()
            try:
                yield
            except (
                Exception
            ):  # whatever ended the request, the others do not wait for it one after the other
                prefix.used_at = time.monotonic()
                raise
            prefix.used_at = time.monotonic()

    def _find_marks(self, text: str) -> tuple[int, ...]:
        """Where beginnings end that are worth marking."""
        position = bisect_left(self._texts, text)
        shared = Counter[int]()
        for indices in (range(position - 1, -1, -1), range(position + 1, len(self._texts))):
            for index in indices[:_NEIGHBOURS]:
                length = common_length(text, self._texts[index])
                if length < self._shortest:
                    break
                # At the beginning of a line no token is cut; equal texts are shared as a whole.
                shared[length if length == len(text) else text.rfind("\n", 0, length) + 1] += 1
        marks: list[int] = []
        last = 0
        for end in sorted(shared):
            others = sum(count for length, count in shared.items() if length >= end)
            gain = (end - last) * (_READ_SAVES * others - _WRITE_COSTS)
            if end >= self._shortest and gain >= self._shortest / 4:
                marks.append(end)
                last = end
        return tuple(marks[-_MOST_MARKS:])

    def _forget(self) -> None:
        """Forget the texts that were open too long ago."""
        while self._recent and (
            len(self._recent) > _MOST_TEXTS or time.monotonic() - self._recent[0][0] > _LIVES_S
        ):
            del self._texts[bisect_left(self._texts, self._recent.popleft()[1])]
        while len(self._prefixes) > 4 * _MOST_TEXTS:
            self._prefixes.popitem(last=False)


def common_length(first: str, second: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
