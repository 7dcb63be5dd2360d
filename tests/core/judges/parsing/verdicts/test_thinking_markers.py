"""Every marker of thinking, in every shape, before every parser: no draft is read, and the verdict behind thinking is.

The parsers are found in the modules, so that a new one fails here until `VERDICTS` has texts of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, NamedTuple

import pytest

from judgegym.judges import parsing
from judgegym.judges.parsing.criteria import CriterionVerdict
from judgegym.judges.parsing.scores import ScoredAnswer, ScoreObject
from judgegym.judges.parsing.verdict_parser import VerdictParser
from tests.thinking import FAMILIES, thoughts

CRITERIA = {"c1": {"met": 1.0, "unmet": 0.0}}


class Written(NamedTuple):
    """How verdicts of one kind are written: a draft and another verdict, what that is, and what the parser takes."""

    draft: str
    verdict: str
    value: object
    arguments: tuple[Any, ...] = ()


VERDICTS = {
    "feedback_score": Written(
        "[FEEDBACK] Perhaps. [SCORE] 5", "[FEEDBACK] It is wrong. [SCORE] 1", 1
    ),
    "prometheus_result": Written(
        "Feedback: Perhaps. [RESULT] 5", "Feedback: It is wrong. [RESULT] 1", 1
    ),
    "binary_verdict": Written(
        'Perhaps {"reason": "fine", "verdict": 1}', '{"reason": "wrong", "verdict": 0}', False
    ),
    "score_object": Written(
        'Perhaps {"reasoning": "fine", "score": 100}',
        '{"reasoning": "wrong", "score": 3}',
        ScoreObject(3, "wrong"),
    ),
    "arena_label": Written("Perhaps so: [[A>>B]]", "It is [[B>A]]", "B>A"),
    "choice_letter": Written("Perhaps [[A]]", "It is [[B]]", "B", ("AB",)),
    "rating": Written("Perhaps 9", "I say 3", 3),
    "bracketed_rating": Written("Perhaps Rating: [[9]]", "Rating: [[3]]", 3.0),
    "listwise_scores": Written(
        '{"scores": [{"id": "a", "explanation": "x", "score": 1}]}',
        '{"scores": [{"id": "a", "explanation": "y", "score": 0.25}]}',
        {"a": ScoredAnswer(0.25, "y")},
        (("a",),),
    ),
    "criteria_verdicts": Written(
        '{"result": [{"id": "c1", "reason": "x", "verdict": "met"}]}',
        '{"result": [{"id": "c1", "reason": "y", "verdict": "unmet"}]}',
        {"c1": CriterionVerdict("unmet", 0.0, "y", "")},
        (CRITERIA,),
    ),
}


def found_parsers() -> dict[str, VerdictParser[..., object]]:
    names = [each.name for each in pkgutil.iter_modules(parsing.__path__)]
    modules = [importlib.import_module(f"{parsing.__name__}.{name}") for name in names]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, VerdictParser)
    }


PARSERS = found_parsers()


def test_there_are_many_markers_and_every_parser_is_tested() -> None:
    assert len(FAMILIES) >= 30
    assert VERDICTS.keys() == PARSERS.keys()


@pytest.mark.parametrize("name", VERDICTS)
def test_a_draft_is_no_verdict_and_what_follows_closed_thinking_is_one(name: str) -> None:
    parse, written = PARSERS[name], VERDICTS[name]
    thought = f"{written.draft} Hmm, the claim is false though."
    if name == "rating":  # which is read at the end
        thought = f"Hmm, the claim is false though. {written.draft}"
    later = (
        (f"Let me see.\n{text}", ended)
        for text, ended in thoughts(thought)
        if text[0] in "<[◁" and ended
    )
    for text, is_ended in (*thoughts(thought), *later):
        assert parse(text, *written.arguments) is None, text
        assert parse(f"{text} I cannot judge this submission.", *written.arguments) is None, text
        behind = f"{text}{written.verdict}"
        found = parse.find(behind, *written.arguments)
        assert (None if found is None else found.value) == (written.value if is_ended else None), (
            behind
        )
        if found is not None and found.at is not None:
            assert found.at[0] >= len(text), "the place is in the whole text"


@pytest.mark.parametrize("name", VERDICTS)
def test_a_quoted_marker_neither_ends_nor_begins_thinking(name: str) -> None:
    parse, written = PARSERS[name], VERDICTS[name]
    for family in FAMILIES:
        begin, end = family["begin"][0].strip(), family["end"][0].strip()
        for mention in (f'It quotes "{begin}" and "{end}".', f"It has `{begin} … {end}` in it."):
            assert parse(f"{mention} {written.verdict}", *written.arguments) == written.value, (
                mention
            )
            never_ended = f"<think>{mention} {written.draft}\nHmm, the claim is false."
            assert parse(never_ended, *written.arguments) is None, never_ended
