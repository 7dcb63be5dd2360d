"""Constrain a model to a judge's form, so that even a small base model ends with a verdict.

Verdicts in text have a grammar (GBNF), verdicts in JSON a schema; both are made from the scale, the
labels, the letters or the form of the judge that parses them. Reasons come first, and have no
characters of which a verdict is made.

Guarantee: every text of a grammar has a verdict for the judge's parser
(`tests/examples/real_model/test_grammars.py` draws texts from each), and has fewer than
`MOST_TOKENS` tokens.

Source: llama.cpp's `grammars/README.md`; a request's `grammar`, and `response_format` of the type
`json_schema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judgegym.judges.arena import STRONG_WEIGHT, ArenaProtocol
from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.labels import ARENA_LABELS, ASPECT_FORM
from judgegym.judges.parsing.rubric_scores import RubricFormat
from judgegym.judges.parsing.scores import PEER_FORM
from judgegym.judges.parsing.verdict_parser import VerdictForm
from judgegym.llm.wire import JSON

MOST_TOKENS = 256
"""The most tokens of a text, at one token a character."""

_LEAST, _MOST = 20, 100
_SIGNS = f"[A-Za-z0-9 ,.;'()-]{{{_LEAST},{_MOST}}}"
_REASONS = f"reasons ::= [A-Z] {_SIGNS}"
_WORDS: Mapping[str, JSON] = {"type": "string", "pattern": f"^[A-Z]{_SIGNS}$"}


def grammar(root: str) -> dict[str, JSON]:
    """Return the request's fields for a grammar with this root; `reasons` stands for some words."""
    return {"grammar": f"root ::= {root}\n{_REASONS}\n"}


def schema(form: VerdictForm) -> dict[str, JSON]:
    """Return the request's fields for a judge's form, with texts of limited length.

    The judge's own schema does not limit a text, since some endpoints refuse limits. A small model
    that repeats itself would then never reach its verdict.
    """
    bounded = dict(form.fields)
    for name, field in form.fields.items():
        if field.schema["type"] == "string" and "enum" not in field.schema:
            bounded[name] = field._replace(schema=_WORDS)
    return {"response_format": VerdictForm(form.name, bounded).response_format}


def arena(protocol: ArenaProtocol = "three_way") -> dict[str, JSON]:
    """Return the form of a comparison: reasons, and a label of the protocol."""
    labels = [*ARENA_LABELS]
    if STRONG_WEIGHT[protocol] <= 1:
        labels = [label for label in ARENA_LABELS if len(label) == len("A>B")]
    verdicts = _alternatives(f"[[{label}]]" for label in labels)
    return grammar(rf'reasons "\n\nMy final verdict is " {verdicts}')


def question() -> dict[str, JSON]:
    """Return the form of a simulated user's message: one question."""
    return grammar('reasons "?"')


def rubric(scale: Scale, form: RubricFormat = "feedback_score") -> dict[str, JSON]:
    """Return the form of a score by a rubric: feedback, and a score of the scale."""
    feedback, score = (
        ("[FEEDBACK]", "[SCORE]") if form == "feedback_score" else ("Feedback:", "[RESULT]")
    )
    return grammar(rf'"{feedback} " reasons " {score} " {_alternatives(map(str, scale.levels))}')


def aspect() -> dict[str, JSON]:
    """Return the form of a vote on an aspect: a reason, and yes or no."""
    return schema(ASPECT_FORM)


def peer() -> dict[str, JSON]:
    """Return the form of a peer's score: a reasoning, and a score."""
    return schema(PEER_FORM)


def choice(letters: Sequence[str]) -> dict[str, JSON]:
    """Return the form of a policy's choice: thinking between its tags, and a letter."""
    choices = _alternatives(f"[[{letter}]]" for letter in letters)
    return grammar(rf'{_THINKING} reasons "\n\n" {choices}')


def rating(scale: Scale) -> dict[str, JSON]:
    """Return the form of a policy's rating: thinking between its tags, and a number."""
    return grammar(rf'{_THINKING} reasons "\n\nRating: " {_alternatives(map(str, scale.levels))}')


_THINKING = r'"<think>\n" reasons "\n</think>\n\n"'


def _alternatives(texts: Iterable[str]) -> str:
    return "(" + " | ".join(f'"{text}"' for text in texts) + ")"
