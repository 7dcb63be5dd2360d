"""Critique: a judge that is shown its own evaluation critiques it and gives a verdict once more, in its own format."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import NamedTuple

from judges.offline.formats.arena_hard import ArenaHard
from judges.offline.formats.asked import parse_asked
from judges.offline.formats.aspect import Aspect
from judges.offline.formats.base import GREAT_DOUBT, JudgeFormat, Personal, judged_by
from judges.offline.formats.choice import Choice
from judges.offline.formats.peer import FEW_POINTS, Peer
from judges.offline.formats.rating import Rating
from judges.offline.formats.rubric import Rubric
from judges.offline.formats.sections import last_read
from judges.offline.request import Message
from judges.offline.rng import Dice
from judges.parsing.verdicts import arena_label, binary_verdict, choice_letter, rating, score_object

Verdict = str | int

_SCORES_REVISED, _LABELS_REVISED = 0.3, 0.1
_MILDER: Mapping[Verdict, Verdict] = {"A>>B": "A>B", "A>B": "A=B", "B>A": "A=B", "B>>A": "B>A"}
_VERDICT_LINE = re.compile(r"Verdict: (?:(yes)|no)$", re.MULTILINE)
_TAGGED_SCORE = re.compile(r"\[(?:SCORE|RESULT)\][^0-9\n-]*(-?[0-9]{1,9})", re.IGNORECASE)
_SCORE_LINE = re.compile(r"^- Score: (100|[0-9]{1,2})\Z", re.MULTILINE)
# The last of several sentences says what the verdict behind it is: it would be wrong ahead of another one.
_CONCLUSION = re.compile(r"(?<=\.) [^.]*\.(?=[^.]*\Z)")
_KEPT = (
    "I looked at my evaluation again. It is neither too harsh nor too lenient, so I keep to it.",
    "I went through my rationale once more and missed nothing. The outcome stays as it was.",
    "My rationale gives single words some weight, but no more than they should have. I keep to it.",
)
_CHANGED = (
    "I may have given the length too much weight beside the terms that are taken up. I revise the outcome.",
    "My rationale looks at single words and leaves out how they are put together. I revise it a little.",
    "I was too sure of what a few words show. On a second look the outcome is another one.",
)


@dataclass(frozen=True, slots=True)
class Critique(Personal):
    """Keeps to most verdicts; others move to the one of a fresh look, or from that one to another that is near."""

    known: tuple[JudgeFormat, ...] = ()

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether a user message ends with a request for a critique, of a judge whose format is known."""
        return self._original(messages) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """Two sentences, then a reply in the judge's own format; the same in every doubt."""
        original = self._original(messages)
        if original is None:
            raise ValueError("not a critique conversation: ask matches() first")
        judge, conversation, evaluation = original
        reading, judge = _READINGS[type(judge)], judged_by(judge, self.model)
        key = "\0".join(["critique", self.model, *(message.content for message in conversation), evaluation])
        dice = Dice(key.encode("utf-8", "surrogatepass"))
        considered, strayed = (judge.reply(conversation, each) for each in (0.0, dice.between(GREAT_DOUBT, 1)))
        own, other = reading.verdict(considered), reading.verdict(strayed)
        assert own is not None and other is not None  # in a format's own replies there are verdicts
        before = reading.verdict(evaluation)
        before = own if before is None else before
        revises = dice.unit() < (_SCORES_REVISED if isinstance(before, int) else _LABELS_REVISED)
        after = _revised(before, own, other, reading.step) if revises else before
        critique = dice.pick(_KEPT if after == before else _CHANGED)
        return f"{critique}\n\n{strayed if after == other else _with_verdict(considered, own, after)}"

    def _original(self, messages: Sequence[Message]) -> tuple[JudgeFormat, list[Message], str] | None:
        """The judge's format, the conversation that it replied to, and its evaluation."""
        asked = last_read(messages, parse_asked)
        if asked is None:
            return None
        system = [message for message in messages if message.role not in ("user", "assistant")]
        conversation = [*system, Message("user", asked.shown)]
        judge = next((judge for judge in self.known if judge.matches(conversation)), None)
        return None if judge is None or type(judge) not in _READINGS else (judge, conversation, asked.evaluation)


def _revised(before: Verdict, own: Verdict, other: Verdict, step: int) -> Verdict:
    """Another verdict than before, if there is one: from the considered one a milder or a strayed one, else that."""
    if before == own:
        return _MILDER.get(before, other)
    if isinstance(before, int) and isinstance(own, int):
        return before + max(-step, min(step, own - before))
    return own


def _with_verdict(reply: str, own: Verdict, verdict: Verdict) -> str:
    """A reply with this verdict in place of its own, which is the last thing in it."""
    if verdict == own:
        return reply
    before, _, behind = _CONCLUSION.sub("", reply).rpartition(str(own))
    return f"{before}{verdict}{behind}"


def _choice(text: str) -> str | None:
    return choice_letter(text, ascii_uppercase)


def _aspect(text: str) -> int | None:
    line = _VERDICT_LINE.match(text)
    yes = binary_verdict(text) if line is None else line[1] is not None
    return None if yes is None else int(yes)


def _rubric(text: str) -> int | None:
    scores = _TAGGED_SCORE.findall(text)
    return int(scores[-1]) if scores else None


def _peer(text: str) -> int | None:
    line, found = _SCORE_LINE.search(text), score_object(text)
    return int(line[1]) if line is not None else None if found is None else found.score


class _Reading(NamedTuple):
    """How a verdict is read in an evaluation, and how far a revision moves one that is a number."""

    verdict: Callable[[str], Verdict | None]
    step: int = 1


_READINGS: Mapping[type[JudgeFormat], _Reading] = {
    ArenaHard: _Reading(arena_label),
    Choice: _Reading(_choice),
    Aspect: _Reading(_aspect),
    Rubric: _Reading(_rubric),
    Peer: _Reading(_peer, FEW_POINTS),
    Rating: _Reading(rating),
}
