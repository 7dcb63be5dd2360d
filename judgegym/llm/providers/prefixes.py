"""Shared prompt prefixes: the first request writes one to the prefix cache, others read it.

Some APIs cache only marked prefixes, writing one costs extra, and it is available once the first
response has begun. Therefore requests with a common prefix mark its end, and wait for the response
to the first of them; the others are then sent at once. If the first one fails, the others no longer
wait.

Common prefixes are found among the texts of the requests of the last minutes. Judges' prompts begin
with what the completions of a row share; equal prompts (votes, several completions of a policy) are
shared as a whole. A prefix counts if enough requests share enough of it; nested prefixes (the
instructions of all rows, the question of one row) are all marked. Guarantee: marks never change a
request's text.
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
"""Lifetime of a cache entry after its last use, in seconds."""
_GATHERING_S = 0.01
"""How long a long prompt waits for similar requests made at the same time, in seconds."""
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
        """Mark no prefix shorter than about this many tokens."""
        self._shortest = shortest_tokens * _CHARACTERS_OF_A_TOKEN
        self._texts: list[str] = []  # sorted: the texts that begin most alike are neighbours
        self._recent: deque[tuple[float, str]] = deque()
        self._prefixes: OrderedDict[int, _Prefix] = OrderedDict()

    @asynccontextmanager
    async def turn(self, text: str) -> AsyncIterator[tuple[int, ...]]:
        """Wait until a request may be sent; the block sends it.

        Args:
            text: everything that the cache compares, in order.

        Returns:
            The ends of the prefixes that the request should mark.
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
        """Return the ends of the prefixes that are worth marking."""
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
        """Forget the texts that were last used too long ago."""
        while self._recent and (
            len(self._recent) > _MOST_TEXTS or time.monotonic() - self._recent[0][0] > _LIVES_S
        ):
            del self._texts[bisect_left(self._texts, self._recent.popleft()[1])]
        while len(self._prefixes) > 4 * _MOST_TEXTS:
            self._prefixes.popitem(last=False)


def common_length(first: str, second: str) -> int:
    """Return the length of two texts' common prefix, in characters."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
