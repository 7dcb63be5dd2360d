"""What a judge might answer, so that its next questions are those of a judge that answers.

Every judge reads its verdict from an object, in whatever form it asks for it; only the listwise judge's has ids, which
stand in its prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from judgegym.judges.core.prompt_format import ShownPrompt
from judgegym.judges.listwise.plausible import LISTWISE_PROMPT
from judgegym.judges.parsing.verdict_form import without_form
from judgegym.judges.scorers.settings import JudgeKind, ScorerSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON, Message
from judgegym.offline.protocol.request import RequestMessage
from judgegym.offline.reader import read_prompt

_WORDS = "-"


def verdict_of(settings: ScorerSettings, messages: Sequence[Message], *, other: bool) -> str:
    """A verdict in the judge's terms.

    Args:
        settings: the judge.
        messages: what it is asked.
        other: give another verdict than without this.
    """
    if settings.judge == "listwise":
        return _listwise(messages)
    kind: JudgeKind = settings.judge
    if kind == "tournament":
        kind = settings.tournament_game
    scale = settings.scale
    fields: dict[JudgeKind, tuple[JSON, JSON]] = {
        "rubric": (
            {"feedback": _WORDS, "score": scale.high},
            {"feedback": _WORDS, "score": scale.low},
        ),
        "aspect": ({"reason": _WORDS, "verdict": 1}, {"reason": _WORDS, "verdict": 0}),
        "peer": ({"reasoning": _WORDS, "score": 60}, {"reasoning": _WORDS, "score": 40}),
        "arena_hard": ({"explanation": _WORDS, "verdict": "A>B"}, {"explanation": _WORDS, "verdict": "B>A"}),
        "choice": ({"explanation": _WORDS, "verdict": "A"}, {"explanation": _WORDS, "verdict": "B"}),
    }
    return wire.dumps(fields[kind][other]).decode()


def _listwise(messages: Sequence[Message]) -> str:
    asked = [RequestMessage(message["role"], without_form(message["content"])) for message in messages]
    reading = read_prompt(asked, (LISTWISE_PROMPT,))
    assert reading is not None  # the listwise judge's own prompt
    titles = LISTWISE_PROMPT.judged_of(reading.sections)
    merits = {title: place / len(titles) for place, title in enumerate(titles)}
    return LISTWISE_PROMPT.reply(ShownPrompt(reading.instructions, reading.sections, merits, Random(0)))
