"""What is judged together, and where its responses are among all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from judgegym.data.rows import DataSet
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON


def units_of(
    rows: list[Mapping[str, JSON]], numbers: range | None = None, **settings: str
) -> ScoreTasks:
    tasks = ScoreTasks(
        DataSet("data.jsonl", rows), ColumnSettings(**settings), lambda judge_task: None, numbers
    )  # type: ignore[arg-type]
    tasks.require_all()
    return tasks


def row(prompt: str, response: str, **more: JSON) -> Mapping[str, JSON]:
    return {"prompt": prompt, "response": response, **more}


def test_equal_rows_have_one_first_row() -> None:
    tasks = units_of(
        [row("p", "a", id=1), row("p", "b"), row("p", "a", id=2), row("p", "a", reference="c")]
    )
    assert list(tasks.first_equal) == [0, 1, 0, 3]


def test_rows_of_a_group_stand_anywhere() -> None:
    rows = [row("p", "a", g=1), row("q", "b", g=2), row("p", "c", g=1), row("q", "", g=2)]
    tasks = units_of(rows, group_by="g")
    assert [(task.rows, task.judge_task.responses, list(task.uids)) for task in tasks] == [
        ((0, 2), ("a", "c"), ["row-1", "row-3"]),
        ((1, 3), ("b", ""), ["row-2", "row-4"]),
    ]
    assert [tasks.response_index.task(place) for place in range(4)] == [0, 1, 0, 1]
    assert tasks.empty == 1


def test_a_part_of_the_rows_keeps_their_numbers() -> None:
    tasks = units_of([row("p", str(number)) for number in range(5)], range(2, 4))
    assert [task.uid for task in tasks] == ["row-3", "row-4"]
    assert tasks.response_index.find(3, None) == 1
    assert tasks.response_index.find(4, None) is None


def test_several_responses_have_places_of_their_own() -> None:
    tasks = units_of(
        [{"prompt": "p", "responses": ["a", "b"]}, {"prompt": "q", "responses": ["c", "d", "e"]}]
    )
    assert tasks.response_index.count == 5
    assert [tasks.response_index.row(place) for place in range(5)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert list(tasks[1].uids) == ["row-2/1", "row-2/2", "row-2/3"]
    assert tasks.response_index.find(1, 2) == 4
    assert tasks.response_index.find(1, 3) is None
    assert tasks.response_index.find(1, None) is None


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (
            [row("p", "a"), {"prompt": "p"}],
            {},
            "row 2: .*beside the prompt .*--response_column",
        ),
        (
            [row("p", "a"), {"prompt": "p", "responses": ["a"]}],
            {},
            "row 2: .*several responses, .*one response",
        ),
        (
            [row("p", "a")],
            {"reference_column": "gold"},
            r"row 1: expected a column gold \(--reference_column\)",
        ),
        (
            [row("p", "a", gold=True)],
            {"reference_column": "gold"},
            r"expected text, found bool \(--reference_column=gold\)",
        ),
        ([row("p", "a")], {"group_by": "g"}, r"row 1: expected a column g \(--group_by\)"),
        (
            [row("p", "a", g=1), row("p", "a", g=None)],
            {"group_by": "g"},
            "row 2: expected a value in g",
        ),
        (
            [row("p", "a", g=1), row("q", "a", g=1)],
            {"group_by": "g"},
            r"\(--group_by\) as row 1, .*another prompt",
        ),
        (
            [{"prompt": "p", "responses": ["a"], "g": 1}],
            {"group_by": "g"},
            "--group_by: each row",
        ),
    ],
)
def test_rows_that_cannot_be_judged_are_named(
    rows: list[Mapping[str, JSON]], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        units_of(rows, **settings)


def test_a_row_that_its_judge_cannot_judge_is_named_before_the_first_call() -> None:
    def check(judge_task: JudgeTask) -> None:
        if judge_task.response == "b":
            raise TaskError("responses: expected several")

    with pytest.raises(DataError, match=r"data.jsonl, row 2: responses: expected several"):
        ScoreTasks(
            DataSet("data.jsonl", [row("p", "a"), row("p", "b")]), ColumnSettings(), check
        ).require_all()


ANSWER = {"role": "assistant", "content": "c"}
GOLD = [row("p", "mine", answer="gold"), {"prompt": "q", "response": None, "answer": "gold"}]


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (GOLD, {}, "row 2: .*from prompt, answer, .*from prompt, response"),
        (GOLD[::-1], {}, "row 2: .*from prompt, response, .*from prompt, answer"),
        (GOLD, {"response_column": "response"}, "row 2: expected a response"),
        (
            [row("p", "a"), {"prompt": None, "context": "c", "response": "b"}],
            {},
            "row 2: .*read from context",
        ),
        ([row("p", "a"), row(" ", "b")], {}, "row 2: .*some text in prompt"),
        (
            [row("p", "a")],
            {"reference_column": "gold"},
            r"row 1: expected a column gold \(--reference_column\)",
        ),
    ],
)
def test_no_other_column_takes_the_place_of_one_that_is_null(
    rows: list[Mapping[str, JSON]], settings: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        units_of(rows, **settings)


def test_rows_of_json_may_have_another_schema_altogether() -> None:
    rows = [
        row("p", "a"),
        {"question": "q", "answer": "b"},
        {"messages": [{"role": "user", "content": "m"}, ANSWER]},
    ]
    assert [task.judge_task.prompt for task in units_of(rows)] == ["p", "q", "m"]


def test_a_pair_has_its_prompt_in_a_column_or_in_its_conversations() -> None:
    pair = [
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}] for text in "ab"
    ]
    rows = [
        {"prompt": "p", "chosen": "a", "rejected": "b"},
        {"prompt": None, "chosen": pair[0], "rejected": pair[1]},
    ]
    assert [(task.judge_task.prompt, task.judge_task.responses) for task in units_of(rows)] == [
        ("p", ("a", "b")),
        ("q", ("a", "b")),
    ]


def test_a_named_column_may_be_in_some_rows_of_json_alone() -> None:
    tasks = units_of([row("p", "a"), row("p", "a", gold="b")], reference_column="gold")
    assert [task.judge_task.reference for task in tasks] == [None, "b"]


def test_the_columns_that_are_read_are_said_though_the_first_row_has_null_in_them() -> None:
    tasks = units_of([row("p", "a", reference=None, rubric=3), row("p", "b", reference="c")])
    assert tasks.reader.columns == {
        "prompt and responses": "prompt, response",
        "reference": "reference",
    }


def test_prompts_that_read_alike_and_are_other_turns_are_other_units() -> None:
    asked: list[Mapping[str, JSON]] = [
        {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"}]},
        {"prompt": "system: Be brief.\n\nuser: Q"},
    ]
    tasks = ScoreTasks(
        DataSet("data.jsonl", asked), ColumnSettings(), lambda judge_task: None, sampled=2
    )
    assert tasks[0].judge_task == tasks[1].judge_task
    assert tasks.key(0) != tasks.key(1)
