"""Plausible replies of the choice and the rating judge, for the offline stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase

from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt, bracketed_fields
from judgegym.judges.core.shared_texts import REFERENCE, TITLES
from judgegym.judges.pairwise.prompt import shared_title
from judgegym.llm.wire import JSON

_STARTS = {f"The Start of Assistant {letter}'s Answer": letter for letter in ascii_uppercase}
_ENDS = [f"The End of Assistant {letter}'s Answer" for letter in ascii_uppercase]
_TITLES = tuple(_STARTS)


def _choose(shown: ShownPrompt) -> str:
    # Equal merits are decided by the text, so that the position of an answer never matters.
    best = max(shown.merits, key=lambda title: (shown.merits[title], shown.sections[title]))
    letter = _STARTS[best]
    count = len(shown.merits)
    return (
        f"I compared the {count} responses by their words. Assistant {letter} serves the question best.\n\n[[{letter}]]"
    )


def _rate(shown: ShownPrompt) -> str:
    return f"By its words, the response covers a part of the query.\n\n{1 + int(10 * shown.merit)}"


def _rated(reply: str) -> Mapping[str, JSON]:
    explanation, _, rating = reply.rpartition("\n\n")
    return {"explanation": explanation, "rating": int(rating)}


CHOICE_PROMPT = PromptFormat(
    sections=("User Question", *_TITLES[:2], *_ENDS[:2]),
    optional=(*_TITLES[2:], *_ENDS[2:], *map(shared_title, TITLES)),
    judged=_TITLES,
    question="User Question",
    references=(shared_title(REFERENCE),),
    reply=_choose,
    fields=bracketed_fields,
)
RATING_PROMPT = PromptFormat(
    sections=("Query", "Response", "Your judgement"),
    judged=("Response",),
    question="Query",
    reply=_rate,
    fields=_rated,
)
