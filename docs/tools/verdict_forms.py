"""Show what judges are asked for with `judge_output=json_schema`: the objects of all judges, or what a rubric adds."""

from __future__ import annotations

import json

from judgegym.judges.arena import LABELS
from judgegym.judges.parsing.criteria import CRITERIA_FORM
from judgegym.judges.parsing.labels import ASPECT_FORM, arena_form, choice_form
from judgegym.judges.parsing.rubric_scores import rubric_form
from judgegym.judges.parsing.scores import LISTWISE_FORM, PEER_FORM, RATING_FORM
from judgegym.judges.parsing.verdict_parser import BEGINNING

RUBRIC = rubric_form((1, 5))
FORMS = {
    **{
        f"Arena-Hard, `judge_protocol={protocol}`": arena_form(labels)
        for protocol, labels in LABELS.items()
    },
    "choice, of three answers": choice_form("ABC"),
    "rubric, with its scale": RUBRIC,
    "aspect": ASPECT_FORM,
    "checklist": CRITERIA_FORM,
    "peer": PEER_FORM,
    "listwise": LISTWISE_FORM,
    "rating, of a policy that judges": RATING_FORM,
}


def verdict_forms(name: str) -> str:
    """Return the table of `objects`, or the words and the schema that `rubric` adds to a request.

    Raises:
        KeyError: the name is neither.
    """
    return {"objects": _objects, "rubric": _rubric}[name]()


def _objects() -> str:
    rows = [
        f"| {judge} | `{form.instructions.removeprefix(BEGINNING)}` |"
        for judge, form in FORMS.items()
    ]
    return "\n".join(["| judge | object |", "|---|---|", *rows])


def _rubric() -> str:
    return (
        f"```text\n{RUBRIC.instructions}\n```\n\n```json\n{json.dumps(RUBRIC.response_format)}\n```"
    )
