"""A verdict with its place in the judge's text, and the parsers that return both.

Guarantee: the place is that of the match, or of the JSON object, from which the value was taken, in the whole text as
the judge wrote it: thinking before it is counted, and white space that a parser folds is not lost.

The last match of a pattern, found from the end of a text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from judgegym.judges.parsing.thinking import OPENED, own_part
from judgegym.llm.template_tokens import without_trailing_tokens

P = ParamSpec("P")
T = TypeVar("T")
OtherT = TypeVar("OtherT")

Place: TypeAlias = tuple[int, int]
"""From where to where in a text, in code points."""


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class ParsedVerdict(Generic[T]):
    """A verdict, and from where to where in the text it was read; `None` if it was not read in one place of it."""

    value: T
    at: Place | None = None

    def but(self, value: OtherT) -> ParsedVerdict[OtherT]:
        """Another value that was read in the same place."""
        return ParsedVerdict(value, self.at)

    def behind(self, offset: int) -> ParsedVerdict[T]:
        """The same in a text that has so many more characters before it."""
        if self.at is None:
            return self
        return ParsedVerdict(self.value, (self.at[0] + offset, self.at[1] + offset))


class VerdictParser(Generic[P, T]):
    """A parser of the verdict in a judge's text outside of its thinking: called for the value, or to `find` the place.

    Both are one reading of the text; `verdict_parser` makes it of a function that reads the judge's own text.
    """

    def __init__(self, read: Callable[Concatenate[str, P], ParsedVerdict[T] | None]) -> None:
        """Parse as `read` does, which gets the text after the judge's thinking and finds places in that."""
        self._read = read
        functools.update_wrapper(self, read)

    def __call__(self, text: str, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The verdict of a text; `None` if there is none."""
        found = self.find(text, *args, **kwargs)
        return None if found is None else found.value

    def find(self, text: str, *args: P.args, **kwargs: P.kwargs) -> ParsedVerdict[T] | None:
        """The verdict of a text with its place in it; `None` if there is none."""
        return last_verdict(text, self._read, *args, **kwargs)

    def given(self, *args: P.args, **kwargs: P.kwargs) -> VerdictParser[[], T]:
        """The parser with these arguments, which takes the text alone."""
        return VerdictParser(lambda own: self._read(own, *args, **kwargs))


verdict_parser = VerdictParser
"""As a decorator."""


def last_verdict(
    text: str, read: Callable[Concatenate[str, P], ParsedVerdict[T] | None], *args: P.args, **kwargs: P.kwargs
) -> ParsedVerdict[T] | None:
    """What `read` finds in a judge's text outside of its thinking.

    A `<think>` after the beginning may start thinking that never ends, or only mention the tag. If there is a verdict
    before it, and another one with the text after it, they are ambiguous: there is no verdict.
    """
    offset, own = own_part(text)
    found = read(own, *args, **kwargs)
    if found is None:
        return None
    opened = OPENED.search(own)
    if opened is not None:
        before = read(without_trailing_tokens(own[: opened.start()]), *args, **kwargs)
        if before is not None and before.value != found.value:
            return None
    return found.behind(offset) if offset else found


def last_of(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """An expression whose `match` finds the last match of `pattern`, a list of all matches of which may be long.

    Give the pattern a literal first sign, which the search goes back to; and no place from which it reads on and on,
    since it is tried from each occurrence of that sign. Group 1 is the pattern's first group, or all of it.

    >>> last_of("[0-9]").match("1 or 2")[1]
    '2'
    """
    return re.compile(f"(?s:.*){pattern}" if re.compile(pattern).groups else f"(?s:.*)({pattern})", flags)
