"""The last match of a pattern, found from the end of a text."""

from __future__ import annotations

import re


def last_of(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """An expression whose `match` finds the last match of `pattern`, a list of all matches of which may be long.

    Give the pattern a literal first sign, which the search goes back to; and no place from which it reads on and on,
    since it is tried from each occurrence of that sign. Group 1 is the pattern's first group, or all of it.

    >>> last_of("[0-9]").match("1 or 2")[1]
    '2'
    """
    return re.compile(f"(?s:.*){pattern}" if re.compile(pattern).groups else f"(?s:.*)({pattern})", flags)
