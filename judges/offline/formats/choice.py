"""Choice of the best: any number of answers in marked sections, a verdict such as `[[C]]`."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from judges.offline.formats.base import GREAT_DOUBT
from judges.offline.formats.sections import last_read
from judges.offline.lexical import coverage, features, merit
from judges.offline.request import Message, system_text

_FIRST_MARKER = re.compile(r"^\[User Question(?P<tag> [0-9a-f]+)?\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Contest:
    """The sections of the judge's user message, as they were put in; the first answer is that of assistant A."""

    question: str
    answers: tuple[str, ...]


def parse_contest(content: str) -> Contest | None:
    """Read the sections of a user message; None when it has not this layout.

    The markers are those that carry the tag of the first marker line. Whatever else stands in a section is text.
    """
    first = _FIRST_MARKER.search(content)
    if first is None:
        return None
    tag = first["tag"] or ""
    end = content.find(f"\n\n[The Start of Assistant A's Answer{tag}]\n", first.end())
    if end < 0:
        return None
    question = content[first.end() : end].removeprefix("\n")
    answers: list[str] = []
    for letter in ascii_uppercase:
        opening = f"\n\n[The Start of Assistant {letter}'s Answer{tag}]"
        closing = f"\n[The End of Assistant {letter}'s Answer{tag}]"
        if not content.startswith(opening, end):
            break
        start = end + len(opening)
        end = content.find(closing, start)
        if end < 0:
            return None
        answers.append(content[start:end].removeprefix("\n"))
        end += len(closing)
    return Contest(question, tuple(answers)) if len(answers) > 1 and not content[end:].strip() else None


class Choice:
    """Chooses by words: the choice moves with the text, and its letter is the last line."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether the system prompt names the letters, and no comparison, and a user message has the layout."""
        system = system_text(messages)
        letters = "[[A]]" in system and "[[B]]" in system and "[[A>B]]" not in system
        return letters and last_read(messages, parse_contest) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """Two sentences, then the letter; in great doubt that of the second best."""
        contest = last_read(messages, parse_contest)
        if contest is None:
            raise ValueError("not a choice conversation: ask matches() first")
        asked = features(contest.question)
        places = range(len(contest.answers))
        ranked = sorted(places, key=lambda place: _rank(contest.question, contest.answers[place]), reverse=True)
        best = ranked[1] if doubt >= GREAT_DOUBT else ranked[0]
        chosen, letter = features(contest.answers[best]), ascii_uppercase[best]
        return (
            f"I compared the {len(contest.answers)} responses by the words they use. Assistant {letter} takes up "
            f"{round(100 * coverage(asked, chosen))} percent of the terms of the question in {chosen.length} words, "
            f"which serves it best.\n\n[[{letter}]]"
        )


def _rank(question: str, answer: str) -> tuple[float, bytes]:
    """What an answer is chosen by: a function of the texts alone, so that its place never matters."""
    asked = features(question)
    digest = hashlib.sha256(answer.encode("utf-8", "surrogatepass")).digest()
    return merit(asked, features(answer), asked), digest
