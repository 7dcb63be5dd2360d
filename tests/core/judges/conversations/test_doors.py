"""Every door gives a task the turns of its responses and the tools, and the same texts."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.data.rows import DataSet
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.errors import DataError
from judgegym.server.protocols.native import ScoreBody
from judgegym.server.protocols.nemo_gym import CompareBody, VerifyBody
from judgegym_trainers.scores.requests import make_completion_row, make_request_body

Json = dict[str, Any]
TOOLS: list[Json] = [{"type": "function", "function": {"name": "add", "description": "Adds."}}]
ASKED: Json = {"role": "user", "content": "What is 2 + 2?"}
CALL: Json = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
RESPONSE: list[Json] = [
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "4"},
    {"role": "assistant", "content": "It is 4."},
]
ITEMS: list[Json] = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 2}'},
    {"type": "function_call_output", "call_id": "c", "output": "4"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is 4."}],
    },
]
NODES: list[Json] = [
    {"parent": n - 1 if n else None, "message": message, "sampled": n > 0}
    for n, message in enumerate([ASKED, *RESPONSE])
]
PROMPT = 'system (tools): {"name":"add","description":"Adds."}\n\nuser: What is 2 + 2?'
SHOWN = (
    'assistant: [reasoning, left out]\n[tool call: add({"a":2})]\n\ntool (add): 4\n\nassistant: It '
    "is 4."
)  # one form


class Both(DatasetJudgeSettings, ColumnSettings):
    """A judge and columns."""


def of_row(row: Json) -> JudgeTask:
    return ScoreTasks(DataSet("data.jsonl", [row]), Both(), lambda task: None)[0].judge_task


def of_request(body: Json) -> JudgeTask:
    (task,) = ScoreBody.model_validate(body).tasks(body)
    return task


def of_verify(body: Json) -> JudgeTask:
    (task,) = VerifyBody.model_validate(body).tasks(body)
    return task


def of_trainer(prompt: object, response: object, cells: Json) -> JudgeTask:
    row = make_completion_row(prompt, response, cells)
    assert row.error == ""
    return of_request(make_request_body([row]))


VERIFY: Json = {
    "responses_create_params": {"input": [ASKED], "tools": TOOLS},
    "response": {"output": ITEMS},
}
INSPECT = [
    {
        **RESPONSE[0],
        "content": [{"type": "reasoning", "reasoning": "Hm."}],
        "reasoning_content": None,
        "tool_calls": [{"id": "c", "function": "add", "arguments": {"a": 2}, "type": "function"}],
    },
    {**RESPONSE[1], "function": "add"},
    RESPONSE[2],
]


@pytest.mark.parametrize(
    "task",
    [
        of_row({"prompt": [ASKED], "completion": RESPONSE, "tools": TOOLS}),
        of_row({"prompt": "What is 2 + 2?", "responses": [RESPONSE], "tools": TOOLS}),
        of_row({"nodes": NODES, "task": {}, "tools": TOOLS}),
        of_row(VERIFY),
        of_request({"prompt": [ASKED], "response": RESPONSE, "tools": TOOLS}),
        of_request({"prompt": "What is 2 + 2?", "responses": [RESPONSE], "tools": TOOLS}),
        of_verify(VERIFY),
        of_verify({**VERIFY, "question": "What is 2 + 2?"}),
        of_trainer([ASKED], RESPONSE, {"tools": TOOLS}),
        of_trainer([ASKED], INSPECT, {"tools": [{**TOOLS[0]["function"], "parameters": None}]}),
    ],
)
def test_every_door_gives_the_same_task(task: JudgeTask) -> None:
    assert (task.prompt, task.responses) == (PROMPT, (SHOWN,))
    assert [(turn.role, turn.text, turn.name, turn.answers) for turn in task.trace] == [
        ("assistant", "", "", ""),
        ("tool", "4", "add", "c"),
        ("assistant", "It is 4.", "", ""),
    ]
    (call,) = task.trace[0].calls
    assert (call.name, call.arguments.replace(" ", ""), call.id) == ("add", '{"a":2}', "c")
    assert task.trace[0].reasoning == "Hm." and [tool.name for tool in task.tools] == ["add"]


def test_the_response_of_messages_is_the_last_turn_and_its_trace_has_the_calls() -> None:
    task = of_row({"messages": [ASKED, *RESPONSE], "tools": TOOLS})
    assert (task.prompt + "\n\nassistant: " + task.response) == f"{PROMPT}\n\n{SHOWN}"
    assert task.response == "It is 4." and len(task.trace) == 3 and task.tools
    pair = of_row({"chosen": [ASKED, *RESPONSE], "rejected": [ASKED, RESPONSE[-1]]})
    assert [len(trace) for trace in pair.traces] == [3, 1] and pair.responses == (SHOWN, "It is 4.")


def test_texts_have_no_trace_and_are_the_tasks_that_they_were() -> None:
    for task in (
        of_row({"prompt": "Q", "response": "A"}),
        of_request({"prompt": "Q", "response": "A"}),
    ):
        assert task.trace == () == task.tools and task.key("rubric") == JudgeTask("Q", ("A",)).key(
            "rubric"
        )
    (compared,) = CompareBody.model_validate(
        {
            "conversation_history": [ASKED],
            "response_objs": [{"output": ITEMS}, {"output": ITEMS[3:]}],
        }
    ).tasks({})
    assert [len(trace) for trace in compared.traces] == [3, 1]


def test_tools_that_cannot_be_read_are_refused_or_named() -> None:
    with pytest.raises(ValueError, match=r"tools: expected .*definitions"):
        of_request({"prompt": "Q", "response": "A", "tools": [{"description": "Adds."}]})
    with pytest.raises(DataError, match=r"data\.jsonl, row 1.*tools: expected") as error:
        of_row({**VERIFY, "responses_create_params": {"input": "Q", "tools": ["add"]}})
    assert "Traceback" not in str(error.value)
    rows = DataSet("data.jsonl", [{"prompt": "Q", "response": "A", "tools": "a hammer"}])
    tasks = ScoreTasks(rows, Both(), lambda task: None)
    assert tasks[0].judge_task.tools == () and tasks.reader.unused_columns == {"tools"}
    assert of_trainer("Q", "A", {"tools": ["a hammer"]}).tools == ()


def test_the_error_of_a_tool_in_inspect_is_its_result() -> None:
    failed = {
        "role": "tool",
        "content": "",
        "error": {"type": "timeout", "message": "It took too long."},
    }
    task = of_trainer("Q", [INSPECT[0], failed, RESPONSE[2]], {})
    assert (
        task.trace[1].text == "It took too long."
        and "tool (add): It took too long." in task.response
    )
