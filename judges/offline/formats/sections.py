"""Where a judge's prompt shows what is judged: the user message, and the sections under headings in it."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from judges.offline.request import Message

T = TypeVar("T")

_BETWEEN = "\n\n"


def last_read(messages: Sequence[Message], parse: Callable[[str], T | None]) -> T | None:
    """What `parse` reads in the last user message in which it reads anything; later turns may only ask again."""
    for message in reversed(messages):
        if message.role == "user" and (found := parse(message.content)) is not None:
            return found
    return None


class Layout:
    """Named sections in a fixed order, an empty line between them; each of them may be missing."""

    def __init__(self, before: str, after: str, names: Sequence[str]) -> None:
        """Sections whose headings are a name between `before` and `after`."""
        self._before, self._after, self._names = before, after, tuple(names)
        any_name = "|".join(map(re.escape, names))
        heading = rf"^{re.escape(before)}(?:{any_name})(?P<tag> [0-9a-f]+)?{re.escape(after)}"
        self._first = re.compile(heading, re.MULTILINE)

    def read(self, content: str) -> dict[str, str]:
        """The sections that there are, as they were put in, by name.

        The headings are those that carry the tag of the first one. Whatever else stands in a section is text.
        """
        first = self._first.search(content)
        if first is None:
            return {}
        tag, shown = first["tag"] or "", _BETWEEN + content[first.start() :]
        places: list[tuple[str, int, int]] = []
        position = 0
        for name in self._names:
            heading = f"{_BETWEEN}{self._before}{name}{tag}{self._after}"
            start = shown.find(heading, position)
            if start >= 0:
                position = start + len(heading)
                places.append((name, start, position))
        ends = [*(start for _, start, _ in places[1:]), len(shown)]
        return {name: shown[begin:end] for (name, _, begin), end in zip(places, ends, strict=True)}
