"""Rating: one response to a query in marked sections, a rating from 1 to 10 as the last line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges.offline.formats.sections import last_read
from judges.offline.lexical import coverage, features, merit
from judges.offline.request import Message

_FIRST_MARKER = re.compile(r"^\[Query(?P<tag> [0-9a-f]+)?\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rated:
    """The two sections of the judge's user message, without the newlines around them."""

    query: str
    response: str


def parse_rated(content: str) -> Rated | None:
    """Read the sections of a user message; None when it has not this layout.

    The markers are those that carry the tag of the first marker line. Whatever else stands in a section is text.
    """
    first = _FIRST_MARKER.search(content)
    if first is None:
        return None
    tag = first["tag"] or ""
    sections: list[str] = []
    position = first.end()
    for closing in (f"[Response{tag}]", f"[Your judgement{tag}]"):
        marker = re.compile(rf"^{re.escape(closing)}$", re.MULTILINE).search(content, position)
        if marker is None:
            return None
        sections.append(content[position : marker.start()].strip("\n"))
        position = marker.end()
    return Rated(*sections)


class Rating:
    """Rates by words: coverage of the query and length count for a response, repetition against it."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether a user message has the layout; there may be no system prompt."""
        return last_read(messages, parse_rated) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """A sentence, then the rating; also when a later turn asks for it again."""
        rated = last_read(messages, parse_rated)
        if rated is None:
            raise ValueError("not a rating conversation: ask matches() first")
        asked, given = features(rated.query), features(rated.response)
        value = 1 + min(int(10 * merit(asked, given, asked)), 9)
        return (
            f"The response takes up {round(100 * coverage(asked, given))} percent of the terms of the query in "
            f"{given.length} words.\n\n{value}"
        )
