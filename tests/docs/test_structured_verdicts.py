"""The page on structured verdicts shows the forms and the schema that the judges ask for."""

from __future__ import annotations

import json

from judgegym.judges.arena import LABELS
from judgegym.judges.parsing.criteria import CRITERIA_FORM
from judgegym.judges.parsing.labels import ASPECT_FORM, arena_form, choice_form
from judgegym.judges.parsing.rubric_scores import rubric_form
from judgegym.judges.parsing.scores import LISTWISE_FORM, PEER_FORM, RATING_FORM
from judgegym.judges.parsing.verdict_parser import BEGINNING
from tests.docs.blocks import blocks
from tests.docs.tables import DOCS, tables

PAGE = DOCS / "judges" / "structured_verdicts.md"
RUBRIC = rubric_form((1, 5))


def test_the_forms_are_those_of_the_judges() -> None:
    arena = [arena_form(labels) for labels in LABELS.values()]
    forms = [*arena, choice_form("ABC"), RUBRIC, ASPECT_FORM, CRITERIA_FORM, PEER_FORM, LISTWISE_FORM, RATING_FORM]
    (shown,) = tables(PAGE, header="judge")
    assert [row[1].strip("`") for row in shown] == [form.instructions.removeprefix(BEGINNING) for form in forms]


def test_the_words_and_the_schema_are_those_of_a_rubric() -> None:
    shown = {block.language: block.text for block in blocks(PAGE)}
    assert shown["text"] == f"{RUBRIC.instructions}\n"
    assert json.loads(shown["json"]) == RUBRIC.response_format
    properties = json.loads(shown["json"])["json_schema"]["schema"]["properties"]
    assert [*properties] == ["feedback", "score"]
