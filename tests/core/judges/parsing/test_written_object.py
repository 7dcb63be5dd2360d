"""A verdict as a JSON object at the end of a judge's text, in every parser that also reads a text's own form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from judgegym.judges.parsing.json_objects import extract_critique, split_explanation
from judgegym.judges.parsing.labels import (
    ARENA_LABELS,
    ASPECT_FORM,
    arena_form,
    arena_label,
    choice_form,
    choice_letter,
)
from judgegym.judges.parsing.rubric_scores import (
    cut_feedback,
    feedback_score,
    feedback_text,
    is_strict_object,
    prometheus_result,
    rubric_form,
)
from judgegym.judges.parsing.scores import LISTWISE_FORM, PEER_FORM, RATING_FORM, rating
from judgegym.judges.parsing.verdict_parser import (
    BEGINNING,
    VerdictForm,
    VerdictParser,
    strip_form,
)

Parser = VerdictParser[[], Any]
# By kind: the form, its parser, a verdict as it is written, and as it is read; and the text form of
# another verdict.
KINDS: Mapping[str, tuple[VerdictForm, Parser, Any, Any, str]] = {
    "arena": (arena_form(ARENA_LABELS), arena_label.bind(), "A>>B", "A>>B", "[[B>A]]"),
    "choice": (choice_form("ABC"), choice_letter.bind("ABC"), "B", "B", "[[C]]"),
    "rating": (RATING_FORM, rating.bind(), 7, 7, "3"),
    "rubric": (rubric_form((1, 5)), feedback_score.bind((1, 5)), 4, 4, "[SCORE] 2"),
    "result": (
        rubric_form((1, 5)),
        prometheus_result.bind((1, 5)),
        4,
        4,
        "Feedback: so [RESULT] 2",
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def object_of(form: VerdictForm, verdict: Any, reasons: str = "since") -> str:
    first, last = form.fields
    return json.dumps({first: reasons, last: verdict})


@kinds
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "  {}\n",
        "I compare.\n\n{}",
        "```json\n{}\n```",
        "```\n{}```\n",
        "<think>[[A]] {{}}</think>\n{}",
        "{}<|im_end|>",
    ],
)
def test_an_object_at_the_end_is_read_with_its_place(kind: str, around: str) -> None:
    form, parser, written, read, _ = KINDS[kind]
    own = object_of(form, written)
    text = (
        around.replace("{}", own, 1)
        if "{{}}" not in around
        else around.replace("{{}}", "x").replace("{}", own)
    )
    found = parser.find(text)
    assert found is not None and found.value == read and found.at is not None
    assert text[slice(*found.at)] == own


@kinds
def test_the_last_verdict_wins_whichever_form_it_has(kind: str) -> None:
    form, parser, written, read, other = KINDS[kind]
    own = object_of(form, written)
    assert parser(f"{own}\n{object_of(form, written, reasons=other)}") == read
    after = parser(f"{own}\n{other}")
    assert after is not None and after != read, "a text's verdict after the object is later"
    assert parser(object_of(form, written, reasons=f"at first {other}")) == read, (
        "what its own reasons quote is no verdict"
    )


@kinds
def test_an_object_that_a_judge_quotes_after_its_own_verdict_steals_nothing(kind: str) -> None:
    form, parser, written, read, other = KINDS[kind]
    own, mine = object_of(form, written), other.replace("so ", "")
    assert parser(mine) is not None
    for around in (
        "{}\n\nThe answer itself ends with:\n```json\n{{}}\n```",
        "{}\n{{}}",
        "{}\n\nThat is, not:\n\n{{}}",
    ):
        text = around.replace("{{}}", own).replace("{}", mine)
        assert parser(text) is None, text
    assert parser(f"{mine}\n{own}".replace(mine, "Therefore:")) == read


@kinds
@pytest.mark.parametrize(
    "around",
    [
        *(
            "{}\n\nI hope that this helps.",
            "My verdict is {}",
            "[{}]",
            "```json\n[\n{}\n]\n```",
            "Here it is:\n{}}",
        ),
        *('{"verdict": "none", "x": {}', "TRAILING", "QUOTES", "ESCAPED", "TRUNCATED"),
    ],
)
def test_words_within_an_object_are_no_verdict_whatever_is_wrong_with_it(
    kind: str, around: str
) -> None:
    """What its reasons quote is no verdict, also where the object is malformed or not at the end."""
    form, parser, written, _, other = KINDS[kind]
    own = object_of(form, written, reasons=f"the answer claims\n{other}\nfor itself").replace(
        "\\n", "\n"
    )
    text = {
        "TRAILING": f"{own[:-1]},}}",
        "QUOTES": own.replace('"', "'"),
        "ESCAPED": json.dumps(own),
        "TRUNCATED": object_of(form, written, reasons=f"it claims {other}").partition(other)[0]
        + other,
    }.get(around, around.replace("{}", own))
    assert parser(text) is None, text


@kinds
@pytest.mark.parametrize(
    "around", ["{}", "<think>Hm.</think>\n{}", "```json\n{}\n```", "Hm.</think>{}<|im_end|>"]
)
def test_thinking_that_an_object_quotes_is_no_thinking(kind: str, around: str) -> None:
    """The reasons may quote `</think>` and a verdict behind it from an answer."""
    form, parser, written, read, other = KINDS[kind]
    own = object_of(form, written, reasons=f"the answer is <think>so</think>\n{other}")
    found = parser.find(around.replace("{}", own))
    assert found is not None and found.value == read and found.at is not None
    assert around.replace("{}", own)[slice(*found.at)] == own


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("He asked for {'verdict': 1}.\n[[B>A]]", "B>A"),
        ("He asked for {'verdict': 1}. [[B>A]] In LaTeX $\\{x\\}$.", None),
        ("[[A=B]] He asked for {'verdict': 1}. [[B>A]] In LaTeX $\\{x\\}$.", None),
        ("[[A=B]] It writes {'verdict': [[B>A]]", None),
    ],
)
def test_where_a_malformed_object_may_end_no_earlier_verdict_is_taken_for_the_last(
    text: str, label: str | None
) -> None:
    assert arena_label(text) == label


@kinds
@pytest.mark.parametrize(
    "written", [None, True, 0, 11, 4.5, -1, [4], {"a": 4}, "none", "", "A>B>A", "Z", 10**400]
)
def test_a_value_that_is_no_verdict_is_none_and_not_replaced_by_what_the_reasons_quote(
    kind: str, written: Any
) -> None:
    form, parser, _, _, other = KINDS[kind]
    assert parser(object_of(form, written, reasons=other)) is None


@pytest.mark.parametrize(
    ("written", "score"),
    [(4.0, 4), ("4", 4), ("4/5", 4), ("4 out of 5", 4), ("4/10", None), ("80%", None)],
)
def test_scores_are_read_as_a_peer_s(written: Any, score: int | None) -> None:
    assert feedback_score(object_of(rubric_form((1, 5)), written)) == score


@pytest.mark.parametrize(
    ("written", "label"), [("a>b", "A>B"), ("[[A>B]]", "A>B"), ("B<A", "A>B"), (" A=B ", "A=B")]
)
def test_labels_are_read_as_in_text(written: str, label: str) -> None:
    assert arena_label(object_of(arena_form(ARENA_LABELS), written)) == label


def test_a_verdict_that_is_there_twice_is_none() -> None:
    assert arena_label('{"verdict": "A>B", "explanation": "", "Verdict": "B>A"}') is None


def test_reasons_and_critique_are_fields() -> None:
    own = json.dumps({"critique": "too kind", "explanation": "B is right", "verdict": "B>A"})
    assert split_explanation(own) == ("too kind", "B is right")
    assert split_explanation("B is right. [[B>A]]") == ("B is right. [[B>A]]",) * 2
    scored = json.dumps({"critique": "too kind", "feedback": "short", "score": 2})
    assert (feedback_text(scored), cut_feedback(scored)) == ("short", "too kind")
    assert (
        extract_critique('{"critique": "too kind", "reason": "so", "verdict": 1}', "verdict")
        == "too kind"
    )
    assert extract_critique('too kind\n{"reason": "so", "verdict": 1}', "verdict") == "too kind"


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ('{"feedback": "so", "score": 4}', True),
        ('{"critique": "", "feedback": "so", "score": 4}', True),
        ('{"score": 4, "feedback": "so"}', False),
        ('{"feedback": "so", "score": "4"}', False),
        ('{"feedback": " ", "score": 4}', False),
        ('{"feedback": "so", "score": 6}', False),
        ('So:\n{"feedback": "so", "score": 4}', False),
        ("[FEEDBACK] so [SCORE] 4", False),
    ],
)
def test_what_is_exactly_of_the_form(text: str, strict: bool) -> None:
    assert is_strict_object(text) is strict


def test_an_object_of_any_length_is_read() -> None:
    assert feedback_score(object_of(rubric_form((1, 5)), 4, "so { " * 20_000)) == 4


def test_each_form_has_its_reasons_first_and_what_endpoints_accept() -> None:
    forms = [form for form, *_ in KINDS.values()] + [ASPECT_FORM, PEER_FORM, LISTWISE_FORM]
    for form in [*forms, *(form.critique_form() for form in forms)]:
        jsonschema.Draft202012Validator.check_schema(form.schema)
        used = set[str]()
        for each in objects(form.schema):
            used |= each.keys()
            if each["type"] == "object":
                assert (
                    each["required"] == [*each["properties"]]
                    and each["additionalProperties"] is False
                )
        assert used <= {"type", "properties", "required", "additionalProperties", "items", "enum"}
        assert form.response_format["json_schema"]["strict"] is True  # type: ignore[index,call-overload]
        assert [*form.fields][-1] in ("verdict", "score", "scores", "rating")
    assert [*LISTWISE_FORM.schema["properties"]["scores"]["items"]["properties"]] == [
        "id",
        "explanation",
        "score",
    ]  # type: ignore[index,call-overload]


def objects(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return [schema, *(found for each in inner for found in objects(each))]


def test_a_wide_scale_is_no_long_list() -> None:
    assert rubric_form((0, 1000)).fields["score"].schema == {"type": "integer"}
    assert feedback_score('{"feedback": "so", "score": 1001}', (0, 1000)) is None


def test_the_form_stands_at_the_end_of_the_prompt_and_is_found_there() -> None:
    form = rubric_form((1, 7))
    quoting = f"Judge.\n\n{BEGINNING}nothing"
    (message,) = form.add_instructions([{"role": "user", "content": quoting}])
    assert message["content"].endswith(
        '{"feedback": "<your feedback>", "score": <an integer between 1 and 7>}'
    )
    assert strip_form(message["content"]) == quoting
    assert strip_form("Judge.") == "Judge."
