"""Arena-Hard: two answers in marked sections, a verdict of three or five labels such as `[[A>B]]`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges.offline.formats.sections import last_read
from judges.offline.lexical import advantage, coverage, features
from judges.offline.request import Message, system_text

_FIRST_MARKER = re.compile(r"^<\|User Prompt(?P<tag> [0-9a-f]+)?\|>$", re.MULTILINE)
_TIE = 0.02
_MUCH = 0.15


@dataclass(frozen=True, slots=True)
class Battle:
    """The three sections of the judge's user message, as they were put in."""

    question: str
    a: str
    b: str


def parse_battle(content: str) -> Battle | None:
    """Read the sections of a user message; None when it has not this layout.

    The markers are those that carry the tag of the first marker line. Whatever else stands in a section is text.
    """
    first = _FIRST_MARKER.search(content)
    if first is None:
        return None
    tag = first["tag"] or ""
    sections: list[str] = []
    position = first.end()
    for opening, closing in (
        ("", f"\n\n<|The Start of Assistant A's Answer{tag}|>"),
        ("", f"\n<|The End of Assistant A's Answer{tag}|>"),
        (f"<|The Start of Assistant B's Answer{tag}|>", f"\n<|The End of Assistant B's Answer{tag}|>"),
    ):
        start = content.find(opening, position)
        end = -1 if start < 0 else content.find(closing, start + len(opening))
        if end < 0:
            return None
        sections.append(content[start + len(opening) : end].removeprefix("\n"))
        position = end + len(closing)
    return Battle(*sections)


class ArenaHard:
    """Judges a pair by words: swapping the answers swaps the label, and the label is the last line."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether the system prompt names the labels and a user message has the layout."""
        return "[[A>B]]" in system_text(messages) and last_read(messages, parse_battle) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """Sentences on the coverage, then the label; also when a later turn asks for the verdict again."""
        battle = last_read(messages, parse_battle)
        if battle is None:
            raise ValueError("not an Arena-Hard conversation: ask matches() first")
        asked = features(battle.question)
        covered = [round(100 * coverage(asked, features(answer))) for answer in (battle.a, battle.b)]
        lead = advantage(battle.question, battle.a, battle.b)
        five = "[[A>>B]]" in system_text(messages)
        return (
            f"Assistant A takes up {covered[0]} percent of the terms of the question in {features(battle.a).length} "
            f"words, and Assistant B {covered[1]} percent in {features(battle.b).length} words. "
            f"{_finding(lead)}\n\n{_label(lead, five)}"
        )


def _finding(lead: float) -> str:
    if abs(lead) < _TIE:
        return "By the words they use there is nothing to choose between them."
    return f"By the words they use, the answer of Assistant {'A' if lead > 0 else 'B'} is the better one."


def _label(lead: float, five: bool) -> str:
    if abs(lead) < _TIE:
        return "[[A=B]]"
    sign = ">>" if five and abs(lead) >= _MUCH else ">"
    return f"[[A{sign}B]]" if lead > 0 else f"[[B{sign}A]]"
