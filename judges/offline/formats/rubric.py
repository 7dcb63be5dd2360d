"""Rubric: a response to an instruction under headings, feedback and a score of a scale in one of two formats."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges.offline.formats.base import GREAT_DOUBT
from judges.offline.formats.sections import Layout, last_read
from judges.offline.lexical import coverage, features, merit
from judges.offline.request import Message, system_text

_LAYOUT = Layout("### ", "\n\n", ("Instruction", "Reference Response", "Score Rubric", "Response To Evaluate"))
_CLOSING = re.compile(r"\n\n---(?: [0-9a-f]+)?\n\nPlease evaluate the response according to the score rubric above\.\Z")
_SCALE = re.compile(r"\ban integer (?:number )?between (-?[0-9]{1,9}) and (-?[0-9]{1,9})\b")
_USUAL_SCALE = (1, 5)
# Merits are rarely outside of these: so stretched, the scores take up the whole scale.
_POOR, _EXCELLENT = 0.2, 0.8


@dataclass(frozen=True, slots=True)
class Task:
    """The sections of the judge's user message, as they were put in."""

    instruction: str
    reference: str | None
    rubric: str
    response: str


def parse_task(content: str) -> Task | None:
    """Read the sections of a user message; None when it has not this layout."""
    closing = _CLOSING.search(content)
    if closing is None:
        return None
    found = _LAYOUT.read(content[: closing.start()])
    if not {"Instruction", "Score Rubric", "Response To Evaluate"} <= found.keys():
        return None
    return Task(
        found["Instruction"], found.get("Reference Response"), found["Score Rubric"], found["Response To Evaluate"]
    )


class Rubric:
    """Scores by words: coverage, length and agreement with the reference count for a response, repetition against."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether the system prompt names a tag for the score and a user message has the layout."""
        system = system_text(messages)
        return ("[SCORE]" in system or "[RESULT]" in system) and last_read(messages, parse_task) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """Two sentences, then the score, in the format asked for; in great doubt the score is one level off."""
        task = last_read(messages, parse_task)
        if task is None:
            raise ValueError("not a rubric conversation: ask matches() first")
        system = system_text(messages)
        low, high = _scale(system)
        score = _moved(_score(task, low, high), doubt, low, high)
        asked, given = features(task.instruction), features(task.response)
        feedback = (
            f"The response takes up {round(100 * coverage(asked, given))} percent of the terms of the instruction in "
            f"{given.length} words. {_finding(score, low, high)}"
        )
        if system.rfind("[RESULT]") > system.rfind("[SCORE]"):
            return f"Feedback: {feedback} [RESULT] {score}"
        return f"[FEEDBACK] {feedback}\n[SCORE] {score}"


def _scale(system: str) -> tuple[int, int]:
    """The scale that a system prompt names; the usual one where it names none, as another prompt may."""
    found = _SCALE.search(system)
    low, high = (int(found[1]), int(found[2])) if found else _USUAL_SCALE
    return (low, high) if low < high else _USUAL_SCALE


def _score(task: Task, low: int, high: int) -> int:
    asked, given = features(task.instruction), features(task.response)
    other = asked if task.reference is None else features(task.reference)
    share = (merit(asked, given, other) - _POOR) / (_EXCELLENT - _POOR)
    return max(low, min(high, low + int((high - low + 1) * max(share, 0.0))))


def _moved(score: int, doubt: float, low: int, high: int) -> int:
    """The score, or in great doubt a neighbour: the lower one in the lesser half of it, as far as the scale goes."""
    if doubt < GREAT_DOUBT:
        return score
    upwards = doubt >= (1 + GREAT_DOUBT) / 2
    return score + 1 if score == low or (upwards and score < high) else score - 1


def _finding(score: int, low: int, high: int) -> str:
    share = (score - low) / (high - low)
    level = "the best" if share == 1 else "a good" if share >= 0.5 else "a weak" if share > 0 else "the worst"
    return f"By the words it uses, that is {level} level of the rubric."
