"""The fields of an item are the same for requests and rows, and each judge is shown those that the table says."""

from __future__ import annotations

import pytest

from judgegym.data.rows import DataSet
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.planning import open_dry_judge
from judgegym.engine.plan.tally import Tally
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.scorers.fields import make_judge_task
from judgegym.judges.scorers.registry import (
    COMPOSED_KINDS,
    JUDGES,
    PROMPT_KIND,
    TASK_FIELDS,
    reads_setting,
)
from judgegym.judges.scorers.settings import AnyJudgeSettings, JudgeKind
from judgegym.llm.wire import JSON
from judgegym.server.protocols.native import ScoreBody

GIVEN: dict[str, JSON] = {
    "reference": "A quite long reference.",
    "rubric": {"criteria": "Is it kind?", "score1_description": "Rude."},
    "aspects": ["conciseness", {"name": "kind", "definition": "Is the submission kind?"}],
    "baseline": "A baseline.",
    "context": ["One.", "Two."],
    "criteria": ["Is the response kind?", {"name": "rude", "text": "It is rude.", "points": -3}],
}


class Both(DatasetJudgeSettings, ColumnSettings):
    """A judge and columns."""


def test_requests_and_columns_have_all_fields() -> None:
    of_request = {*ScoreBody.model_fields} - {
        "prompt",
        "response",
        "responses",
        "group",
        "member",
        "tools",
    }
    assert of_request == {*TASK_FIELDS} == {*GIVEN}
    assert {f"{name}_column" for name in TASK_FIELDS} <= {*ColumnSettings.model_fields}


@pytest.mark.parametrize("judge", [kind for kind in JUDGES if kind not in COMPOSED_KINDS])
@pytest.mark.parametrize("value", [{}, GIVEN, *({name: value} for name, value in GIVEN.items())])
def test_a_row_and_a_request_that_say_the_same_are_the_same_task(
    judge: JudgeKind, value: dict[str, JSON]
) -> None:
    if any(name in value and judge not in TASK_FIELDS[name] for name in ("context", "criteria")):
        return  # a row's is read where it is shown, or named
    body = {"prompt": "Q", "responses": ["A", "B"], **value}
    (item,) = ScoreBody.model_validate(body).tasks(body)
    units = ScoreTasks(DataSet("data.jsonl", [body]), Both(judge=judge), lambda item: None)
    assert units[0].judge_task == item
    assert units.reader.unused_columns == {name for name in value if judge not in TASK_FIELDS[name]}


async def asked(settings: AnyJudgeSettings, task: JudgeTask) -> Tally:
    """The calls and tokens that a task takes."""
    dry = DryRun()
    await judge_responses(open_dry_judge(settings, dry), task)
    return dry.tally


@pytest.mark.parametrize(
    "judge",
    [
        kind
        for kind, judge in JUDGES.items()
        if judge.asks_endpoint and kind not in (*COMPOSED_KINDS, PROMPT_KIND)
    ],
)
async def test_a_judge_is_shown_its_fields_and_no_others(judge: JudgeKind) -> None:
    given = {"aspects": "correctness", "rubric": "What?", "criteria": ["Is it?"]}
    read = {name: value for name, value in given.items() if reads_setting(judge, name)}
    settings = DatasetJudgeSettings.model_validate({"judge": judge, **read})
    plain = make_judge_task("Q", ["A", "B"], {})
    without = await asked(settings, plain)
    shown = set()
    for name, value in GIVEN.items():
        text = "Is it kind? How kind is it?" if name == "rubric" else value
        if await asked(settings, make_judge_task("Q", ["A", "B"], {name: text})) != without:
            shown.add(name)
    assert shown == {name for name, kinds in TASK_FIELDS.items() if judge in kinds}


def test_reward_of_parts_is_shown_what_its_parts_are() -> None:
    settings = Both(judge="composite", reward={"a": {"judge": "aspect"}, "b": {"judge": "rubric"}})
    assert settings.shown_fields == {"reference", "rubric", "aspects", "context"}
    rows = [{"prompt": "Q", "response": "A", **GIVEN}]
    assert ScoreTasks(
        DataSet("data.jsonl", rows), settings, lambda item: None
    ).reader.unused_columns == {
        "baseline",
        "criteria",
    }


@pytest.mark.parametrize(
    ("column", "named"), [("rubrics", {}), ("rubric", {}), ("mine", {"criteria_column": "mine"})]
)
def test_lists_of_public_rows_are_criteria_for_the_judge_that_reads_them_alone(
    column: str, named: dict[str, str]
) -> None:
    row = {"prompt": "Q", "response": "A", column: [{"criterion": "Is kind.", "points": 3}]}
    units = ScoreTasks(
        DataSet("data.jsonl", [row]), Both(judge="checklist", **named), lambda item: None
    )
    criteria = units[0].judge_task.criteria
    assert criteria is not None and [(one.text, one.points) for one in criteria] == [
        ("Is kind.", 3)
    ]
    assert (units.reader.columns["criteria"], units.reader.unused_columns) == (column, set())
    other = ScoreTasks(DataSet("data.jsonl", [row]), Both(judge="rubric"), lambda item: None)
    assert other[0].judge_task.criteria is None and other.reader.unused_columns == {column} - {
        "mine"
    }
