"""Peer: one answer to a query under titles, a JSON object with the reasoning and a score from 0 to 100."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges import prompts
from judges.core.delimiters import Delimiters
from judges.offline.formats.base import GREAT_DOUBT, Personal
from judges.offline.formats.sections import Layout, last_read
from judges.offline.lexical import coverage, features, merit
from judges.offline.request import Message
from judges.offline.rng import unit

_LAYOUT = Layout("", ":\n", ("QUERY", "CANDIDATE RESPONSE", "RUBRIC"))
_FIRST_TITLE = re.compile(r"QUERY(?P<tag> [0-9a-f]+)?:\n")
_LAST_SENTENCE = re.compile(r"(?: [^\n]+)?")
# Hardly a merit is outside of these: so stretched, the scores take up the whole scale.
_POOR, _EXCELLENT = 0.1, 0.85
_LENIENCY = 8  # points, up or down
FEW_POINTS = 6
"""How far a score is from the considered one in great doubt, at the most."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A prompt without its own words: the notice ahead of them, the titles' tag, the sections, and a last sentence."""

    notice: str
    tag: str
    sections: str
    emphasis: str


class Form:
    """The words of a prompt that is one user message: those ahead of its first section and behind its last one."""

    def __init__(self, prompt: str, last: str) -> None:
        """The prompt of this name, whose last section ends with the placeholder `last`."""
        template = prompts.load(prompt)
        self._head = template.partition("{query}")[0]
        self._tail = template.rpartition(last)[2].removesuffix("{emphasis}")

    def read(self, content: str) -> Sheet | None:
        """Take a user message apart; None when its beginning and its end are not those of the prompt."""
        notice, _, inside = content.partition(self._head)
        sections, found, emphasis = inside.rpartition(self._tail)
        first = _FIRST_TITLE.match(sections)
        if not found or first is None or _LAST_SENTENCE.fullmatch(emphasis) is None:
            return None
        tag = first["tag"] or ""
        return Sheet(notice, tag, sections, emphasis) if notice == Delimiters(tag.strip()).notice else None

    def write(self, sheet: Sheet) -> str:
        """The user message that `read` takes apart so."""
        return f"{sheet.notice}{self._head}{sheet.sections}{self._tail}{sheet.emphasis}"


FORM = Form("peer", "{rubric}")


@dataclass(frozen=True, slots=True)
class Case:
    """The sections of the judge's user message, as they were put in."""

    query: str
    response: str
    rubric: str


def parse_case(content: str) -> Case | None:
    """Read the sections of a user message; None when it has not this layout."""
    sheet = FORM.read(content)
    found = {} if sheet is None else _LAYOUT.read(sheet.sections)
    if len(found) < 3:
        return None
    return Case(found["QUERY"], found["CANDIDATE RESPONSE"], found["RUBRIC"])


@dataclass(frozen=True, slots=True)
class Peer(Personal):
    """Scores by words, some models a few points higher and some lower: coverage and length count, repetition against.

    The rubric changes nothing: words do not show what it asks for.
    """

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether a user message is the prompt; there may be no system prompt."""
        return last_read(messages, parse_case) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """Two sentences, then the object in a line of its own; in great doubt the score is a few points off."""
        case = last_read(messages, parse_case)
        if case is None:
            raise ValueError("not a peer's conversation: ask matches() first")
        asked, given = features(case.query), features(case.response)
        share = (merit(asked, given, asked) - _POOR) / (_EXCELLENT - _POOR)
        score = _moved(_within(100 * share + _leniency(self.model)), doubt)
        reasoning = (
            f"As far as words show what the rubric asks for, the response takes up "
            f"{round(100 * coverage(asked, given))} percent of the terms of the query."
        )
        evaluation = json.dumps({"reasoning": reasoning, "score": score})
        looked_at = f"I compared the response with the query by the words they use. It has {given.length} of them."
        return f"{looked_at}\n\n{evaluation}"


def _leniency(model: str) -> float:
    """How many points a model of this name gives too many."""
    return _LENIENCY * (2 * unit(f"leniency\0{model}") - 1) if model else 0.0


def _within(points: float) -> int:
    return max(0, min(100, round(points)))


def _moved(score: int, doubt: float) -> int:
    """The score, or in great doubt one nearby: a lower one in the lesser half of it, as far as the scale goes."""
    if doubt < GREAT_DOUBT:
        return score
    way = 2 * (doubt - GREAT_DOUBT) / (1 - GREAT_DOUBT) - 1
    step = min(FEW_POINTS, 1 + int(FEW_POINTS * abs(way)))
    upwards = way >= 0
    return score + step if (upwards and score + step <= 100) or score < step else score - step
