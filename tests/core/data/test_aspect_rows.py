"""Rows of aspect critique: the columns that people use, and what is said of those that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.data.rows import Row, load_rows
from judgegym.data.rubric_rows import AspectTask, read_answers, read_gold
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect
from judgegym.llm.errors import DataError

SAFE = Aspect(name="child_safety", definition="Is the submission safe for children?")
CORRECT, HARM = SUPPORTED_ASPECTS["correctness"], SUPPORTED_ASPECTS["harmfulness"]


def rows(*values: dict[str, Any]) -> list[Row]:
    return [Row("data.jsonl", number, each) for number, each in enumerate(values, start=1)]


def read(*aspects: Aspect, **values: Any) -> AspectTask:
    (task,) = read_answers(rows(values), aspects)
    return task


def gold(*aspects: Aspect, **values: Any) -> dict[str, bool]:
    """The gold verdicts of a row with an answer, of which each has a task where the policy is the judge."""
    values = {"id": "r", "answer": "A", **values}
    tasks = read_gold(rows(values), aspects)
    golds = read(*aspects, **values).golds
    assert [(task.uid, task.golds) for task in tasks] == [
        (f"r:{aspect.name}", {aspect.name: golds[aspect.name]})
        for aspect in aspects
        if aspect.name in golds
    ]
    return dict(golds)


def error(*values: dict[str, Any], aspects: tuple[Aspect, ...] = ()) -> str:
    """What is wrong with rows, in whichever role they are read."""
    with pytest.raises(DataError) as caught:
        read_answers(rows(*values), aspects)
    if aspects:
        with pytest.raises(DataError, match=re.escape(str(caught.value))):
            read_gold(rows(*values), aspects)
    return str(caught.value)


@pytest.mark.parametrize("question", ["question", "user_input", "prompt"])
@pytest.mark.parametrize("answer", ["answer", "response"])
@pytest.mark.parametrize("uid", ["uid", "question_id", "id"])
def test_every_name_of_a_column(question: str, answer: str, uid: str) -> None:
    task = read(
        **{uid: "r", question: "Why?", answer: "Because.", "reference": "So.", "category": "Math"}
    )
    assert task == AspectTask("r", "Why?", "Why?", "Because.", None, "So.", "Math")


def test_of_several_names_the_first_one_decides() -> None:
    task = read(
        prompt="p",
        user_input="u",
        question="q",
        response="r",
        answer="a",
        context="one",
        contexts="many",
    )
    assert (task.asked, task.answer, task.context) == ("q", "a", "many")


def test_a_column_without_text_is_as_good_as_none() -> None:
    task = read(
        question=None,
        user_input=7,
        prompt="p",
        answer=None,
        response="r",
        reference=None,
        category=3,
    )
    assert (task.asked, task.answer, task.reference, task.category) == (
        "p",
        "r",
        None,
        None,
    )


@pytest.mark.parametrize("name", ["contexts", "context"])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("one text", "one text"),
        (["one"], "one"),
        (["one", "two", "three"], "one\ntwo\nthree"),
        (["two\nlines", ""], "two\nlines\n"),
        ("", None),
        ([], None),
        ([""], None),
        (None, None),
    ],
)
def test_contexts_are_a_text_or_a_list_of_texts(name: str, given: Any, wanted: str | None) -> None:
    assert read(question="Why?", **{name: given}).context == wanted


def test_an_empty_list_of_contexts_gives_way_to_the_other_column() -> None:
    assert read(question="Why?", contexts=[], context="one").context == "one"


@pytest.mark.parametrize("given", [["one", 2], {"text": "one"}, 7, [["one"]]])
def test_contexts_of_another_shape_are_refused(given: Any) -> None:
    said = error({"question": "Why?"}, {"question": "How?", "contexts": given})
    assert said.startswith("data.jsonl, row 2: ")
    assert "list of texts" in said
    assert said.endswith("columns found: question, contexts")


@pytest.mark.parametrize("values", [{"text": "Why?"}, {"question": None, "text": "", "answer": 3}])
def test_a_row_has_a_question_or_an_answer(values: dict[str, Any]) -> None:
    said = error({"question": "Why?"}, values)
    assert said.startswith("data.jsonl, row 2: ")
    names = (
        "question",
        "user_input",
        "prompt",
        "answer",
        "response",
        f"columns found: {', '.join(values)}",
    )
    assert [name for name in names if name not in said] == []


def test_rows_without_an_id_are_called_by_their_number() -> None:
    tasks = read_answers(
        rows(
            {"question": "a"},
            {"question": "b", "id": "x"},
            {"question": "c", "uid": ""},
            {"prompt": "d", "id": 7},
        ),
        (),
    )
    assert [task.uid for task in tasks] == ["row-1", "x", "row-3", "7"]


def test_a_cell_of_a_table_that_is_empty_holds_nothing(tmp_path: Path) -> None:
    """In CSV that is the only way to say that a row has no answer, or no question."""
    path = tmp_path / "data.csv"
    path.write_text("question,answer,reference\nWhy?,,\n,A submission alone.,\n")
    first, second = read_answers(load_rows(str(path), split="train"), ())
    assert (first.asked, first.answer, first.reference) == ("Why?", None, None)
    assert (second.asked, second.answer, second.question) == (
        None,
        "A submission alone.",
        "A submission alone.",
    )


YES_AND_NO = [
    (1, True),
    (0, False),
    (1.0, True),
    (True, True),
    (False, False),
    ("1", True),
    ("0", False),
]
YES_AND_NO += [("Yes", True), ("NO", False), (" true ", True), ("False", False)]


@pytest.mark.parametrize(("said", "meant"), YES_AND_NO)
def test_what_a_gold_verdict_may_be(said: Any, meant: bool) -> None:
    assert gold(CORRECT, verdict=said) == {"correctness": meant}
    assert gold(CORRECT, HARM, verdicts={"harmfulness": said, "correctness": 0}) == {
        "correctness": False,
        "harmfulness": meant,
    }


@pytest.mark.parametrize("said", [2, -1, 0.7, "maybe", "2", [1], {"yes": 1}, "yes and no"])
@pytest.mark.parametrize("column", ["verdict", "verdicts"])
def test_a_verdict_that_is_neither_yes_nor_no_is_refused(said: Any, column: str) -> None:
    values = {"answer": "A", column: said if column == "verdict" else {"correctness": said}}
    message = error({"answer": "A"}, values, aspects=(CORRECT,))
    assert message.startswith("data.jsonl, row 2: ")
    assert [
        part for part in ("correctness", repr(said), f"answer, {column}") if part not in message
    ] == []


def test_one_verdict_is_enough_where_one_aspect_is_asked() -> None:
    assert gold(SAFE, verdict="no") == {"child_safety": False}
    assert gold(SAFE, verdict=0, verdicts={"child_safety": 1}) == {"child_safety": True}
    assert gold(SAFE, verdict=0, verdicts={"correctness": 1}) == {"child_safety": False}
    assert gold(SAFE, CORRECT, verdict=1) == {}, "whose verdict would it be?"


def test_rows_without_a_gold_verdict_on_these_aspects_have_no_task() -> None:
    found = read_gold(
        rows(
            {
                "id": "both",
                "question": "Why?",
                "answer": "A",
                "verdicts": {"harmfulness": 0, "correctness": 1},
            },
            {"id": "one", "answer": "A", "verdicts": {"correctness": "no", "harmfulness": None}},
            {"id": "other", "answer": "A", "verdicts": {"conciseness": 1}},
            {"id": "none", "answer": "A"},
            {"id": "empty", "answer": "A", "verdicts": {"correctness": "", "harmfulness": ""}},
            {"id": "no answer", "question": "Why?", "verdicts": {"correctness": 1}},
        ),
        (HARM, CORRECT),
    )
    assert [(task.uid, task.golds) for task in found] == [
        ("both:harmfulness", {"harmfulness": False}),
        ("both:correctness", {"correctness": True}),
        ("one:correctness", {"correctness": False}),
    ]


def test_a_task_of_the_judge_knows_its_row_and_its_aspect() -> None:
    (task,) = read_gold(
        rows(
            {
                "id": "r",
                "prompt": "Why?",
                "response": "A",
                "contexts": ["c", "d"],
                "reference": "R",
                "category": "x",
                "verdict": 1,
            }
        ),
        (SAFE,),
    )
    assert task == AspectTask(
        "r:child_safety",
        "Why?",
        "Why?",
        "A",
        "c\nd",
        "R",
        "child_safety",
        SAFE,
        {"child_safety": True},
    )


@pytest.mark.parametrize("given", [[1, 0], 1, True, "[1, 0]", "correct", '{"correctness": 1'])
def test_verdicts_of_another_shape_are_not_passed_over(given: Any) -> None:
    """They are labels that somebody has paid for: a row whose labels cannot be read must not look like one without."""
    readable = {"answer": "A", "verdicts": {"correctness": 1, "harmfulness": 0}}
    message = error(readable, {"answer": "B", "verdicts": given}, aspects=(CORRECT, HARM))
    assert message.startswith("data.jsonl, row 2: ") and "verdicts" in message


def test_verdicts_of_a_table_are_the_text_of_an_object(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(
        'id,answer,verdicts\none,A,"{""correctness"": 1, ""harmfulness"": ""no""}"\nnone,B,\n'
    )
    tasks = read_answers(load_rows(str(path), split="train"), (CORRECT, HARM))
    assert [task.golds for task in tasks] == [{"correctness": True, "harmfulness": False}, {}]
