"""Every text that a form allows has the verdict that it ends with, for the judge's own parser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.real_model import grammars
from examples.real_model.configs import ALL
from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import is_strict_feedback
from judgegym.judges.parsing.scores import rating, score_object
from judgegym.judges.parsing.thinking import split
from judgegym.judges.rubrics.prompt import SCORE_PARSERS

FIVE, TEN = Scale(1, 5), Scale(1, 10)
_PIECE = re.compile(
    r'"((?:[^"\\]|\\.)*)"|(\[(?:[^\]\\]|\\.)*\](?:\{[\d,]+\})?)|([a-z]+)|([()|])|\s+'
)


def pattern_of(gbnf: str) -> str:
    """A grammar without recursion as a regular expression."""
    rules = dict(line.split(" ::= ") for line in gbnf.strip().splitlines())

    def expression(rule: str) -> str:
        made, place = "", 0
        while place < len(rule):
            piece = _PIECE.match(rule, place)
            assert piece is not None, rule[place:]
            text, signs, name, mark = piece.groups()
            if text is not None:
                made += re.escape(json.loads(f'"{text}"'))
            elif signs or mark:
                made += signs or {"(": "(?:"}.get(mark, mark)
            elif name:
                made += f"(?:{expression(rules[name])})"
            place = piece.end()
        return made

    return expression(rules["root"])


def values_of(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if schema["type"] == "object":
        assert schema["required"] == list(schema["properties"])
        return st.fixed_dictionaries(
            {name: values_of(each) for name, each in schema["properties"].items()}
        )
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return st.from_regex(re.compile(schema["pattern"], re.ASCII), fullmatch=True)


def texts_of(form: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if "grammar" in form:
        return st.from_regex(re.compile(pattern_of(form["grammar"]), re.ASCII), fullmatch=True)
    return values_of(form["response_format"]["json_schema"]["schema"]).map(
        lambda value: json.dumps(value, indent=2)
    )


def last(text: str, choices: Sequence[str]) -> str:
    """Which of the choices a text ends with."""
    return max((choice for choice in choices if text.endswith(choice)), key=len)


def is_feedback(text: str) -> bool:
    assert is_strict_feedback(text, "feedback_score", FIVE)
    return str(SCORE_PARSERS["feedback_score"](text, FIVE)) == text[-1]


def is_scored(text: str) -> bool:
    found = score_object(text)
    return found is not None and found.score == json.loads(text)["score"]


def is_chosen(text: str) -> bool:
    thought = split(text)
    assert thought.valid
    return choice_letter(thought.answer, "ABCD") == text[-3]


def is_rated(text: str) -> bool:
    thought = split(text)
    assert thought.valid
    return rating(thought.answer) == int(last(text, [f" {level}" for level in TEN.levels]))


FORMS: dict[str, tuple[Mapping[str, Any], Callable[[str], bool]]] = {
    "arena": (
        grammars.arena(),
        lambda text: arena_label(text) == last(text, ("[[A>B]]", "[[A=B]]", "[[B>A]]"))[2:-2],
    ),
    "arena_hard_v0.1": (
        grammars.arena("arena_hard_v0.1"),
        lambda text: f"[[{arena_label(text)}]]" in text,
    ),
    "rubric": (grammars.rubric(FIVE), is_feedback),
    "prometheus": (
        grammars.rubric(FIVE, "result"),
        lambda text: str(SCORE_PARSERS["result"](text, FIVE)) == text[-1],
    ),
    "aspect": (
        grammars.aspect(),
        lambda text: binary_verdict(text) == bool(json.loads(text)["verdict"]),
    ),
    "peer": (grammars.peer(), is_scored),
    "choice": (grammars.choice("ABCD"), is_chosen),
    "rating": (grammars.rating(TEN), is_rated),
}


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_text_of_a_form_has_its_verdict(name: str, data: st.DataObject) -> None:
    form, reads = FORMS[name]
    text = data.draw(texts_of(form))
    assert reads(text), text


def test_every_run_holds_its_verdicts_to_a_form_of_these() -> None:
    forms = [form for form, _ in FORMS.values()]
    for run in ALL:
        if run.constraint.endswith(("json_schema`", "nothing")):
            continue
        judges = run.env.get("judges")
        bodies = [run.env.get("judge_extra_body"), run.openai.get("extra_body")]
        bodies += [judge["extra_body"] for judge in judges] if isinstance(judges, list) else []
        found = [
            form
            for body in bodies
            if isinstance(body, Mapping)
            for form in forms
            if form.items() <= body.items()
        ]
        assert found, run.name
