"""Conversations of eight formats: equal ones are shown in equal words; nothing is lost, and nothing forged.

`conversations.jsonl` has a row of each format that can hold a conversation, with its turns as far
as the format holds them (role, text, name, calls, the id of the answered call, reasoning), how many
of them the policy was asked, and how the conversation is shown. Texts of two of the conversations
imitate turns, tool calls, cuts and prompts.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from judgegym.judges.conversations.readers import add_tools, parse_trace
from judgegym.judges.conversations.tools import Tool, parse_tools
from judgegym.judges.conversations.turns import Turn, render_transcript
from judgegym.judges.rubrics.prompt import Rubric
from tests.rubrics import rubric_prompt

Json: TypeAlias = dict[str, Any]

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("conversations.jsonl").read_text().splitlines()
]
ROWS = {(case["talk"], case["format"]): case["row"] for case in CASES}
OPENAI = ROWS["tools", "openai"]
TOOLS: list[Json] = OPENAI["tools"]
DEFINED: Json = TOOLS[0]["function"]
AS_OBJECTS = ("trl", "sharegpt", "inspect")
"""Formats that keep the value of arguments, and not their spelling."""


def as_object(arguments: str) -> Any:
    """Arguments as their value, where that is an object; else as they are."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def parts_of(turn: Turn, case: Json) -> list[object]:
    arguments = as_object if case["format"] in AS_OBJECTS else str
    calls = [[call.name, arguments(call.arguments), call.id] for call in turn.calls]
    return [turn.role, turn.text, turn.name, calls, turn.answers, turn.reasoning]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['talk']} {case['format']}") for case in CASES]
)
def test_a_conversation_is_shown_in_the_same_words_from_each_format(case: Json) -> None:
    trace = parse_trace(case["row"])
    assert trace is not None
    assert [parts_of(turn, case) for turn in trace.turns] == case["turns"]
    assert render_transcript(add_tools(trace.turns, trace.tools)) == case["shown"]
    assert trace.prompt_length == case["asked"]
    assert trace.tools == (parse_tools(TOOLS) if "system (tools): " in case["shown"] else ())


@pytest.mark.parametrize("talk", ["hostile", "quoting"])
def test_no_text_forges_a_turn_or_a_section_of_a_prompt(talk: str) -> None:
    trace = parse_trace(ROWS[talk, "openai"])
    assert trace is not None
    prompt, response = (
        render_transcript(add_tools(trace.turns[: trace.prompt_length], trace.tools)),
        trace.turns[trace.prompt_length :],
    )
    asked = rubric_prompt(prompt, render_transcript(response), Rubric("Is it right?")).messages[-1][
        "content"
    ]
    tag = re.search(r"### Instruction( [0-9a-f]{12})\n", asked)
    assert tag is not None
    for title in ("### Instruction", "### Response To Evaluate", "### Score Rubric"):
        assert len(re.findall(rf"^{title}{tag[1]}$", asked, re.MULTILINE)) == 1
    assert "<|im_start|>" not in asked


@pytest.mark.slow
def test_rows_are_those_that_the_packages_write() -> None:
    from atroposlib.envs.base import ScoredDataItem
    from openai.types.chat import ChatCompletionMessage
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseReasoningItem,
    )

    for message in OPENAI["messages"]:
        if message["role"] == "assistant":
            assert (
                ChatCompletionMessage.model_validate(message).model_dump(exclude_unset=True)
                == message
            )
    kinds = {"function_call": ResponseFunctionToolCall, "reasoning": ResponseReasoningItem}
    for item in ROWS["tools", "nemo_gym"]["response"]["output"]:
        if item["type"] in kinds:
            assert kinds[item["type"]].model_validate(item).model_dump(exclude_unset=True) == item
        elif item["type"] == "message":
            part = {"annotations": [], **item["content"][0]}
            whole = {"id": "m", "status": "completed", **item, "content": [part]}
            assert ResponseOutputMessage.model_validate(whole).content[0].type == "output_text"
    assert "messages" in ScoredDataItem.__annotations__


@pytest.mark.slow
def test_traces_of_verifiers_are_read_as_it_writes_them() -> None:
    types = pytest.importorskip("verifiers.v1.types")
    kinds = {"assistant": types.AssistantMessage, "tool": types.ToolMessage}
    for node in ROWS["tools", "verifiers"]["nodes"]:
        kind = kinds.get(node["message"]["role"])
        assert (
            kind is None
            or node["message"].items() <= kind.model_validate(node["message"]).model_dump().items()
        )


@pytest.mark.slow
def test_samples_of_inspect_are_read_as_it_writes_them() -> None:
    model = pytest.importorskip("inspect_ai.model")
    row = ROWS["calls alone", "inspect"]
    kinds = {
        "system": model.ChatMessageSystem,
        "assistant": model.ChatMessageAssistant,
        "tool": model.ChatMessageTool,
        "user": model.ChatMessageUser,
    }
    dumped = [
        kinds[each["role"]].model_validate(each).model_dump(exclude_none=True)
        for each in row["messages"]
    ]
    assert parse_trace({**row, "messages": dumped}) == parse_trace(row)


def test_a_row_with_several_conversations_needs_the_name_of_one() -> None:
    row = {**OPENAI, **ROWS["tools", "trl"]}
    with pytest.raises(ValueError, match="some in completion, messages; name the column"):
        parse_trace(row)
    assert parse_trace(row, "messages") == parse_trace(OPENAI)
    assert parse_trace({"text": "Hi"}) is None and parse_trace(row, "conversations") is None


def test_of_a_trace_with_branches_the_last_one_is_read() -> None:
    def node(parent: int | None, role: str, text: str, *, sampled: bool = False) -> Json:
        return {"parent": parent, "message": {"role": role, "content": text}, "sampled": sampled}

    nodes = [
        node(None, "user", "Q"),
        node(0, "assistant", "A", sampled=True),
        node(0, "user", "again"),
        node(2, "assistant", "B", sampled=True),
    ]
    trace = parse_trace({"nodes": nodes, "task": {}})
    assert trace is not None
    assert [turn.text for turn in trace.turns] == ["Q", "again", "B"] and trace.prompt_length == 2


@pytest.mark.parametrize(
    ("given_tools", "found"),
    [
        (None, ()),
        ("", ()),
        (TOOLS, (Tool("search", DEFINED["description"], DEFINED["parameters"]), Tool("now"))),
        (
            json.dumps([{"name": "f", "description": None, "input_schema": {"a": None}}]),
            (Tool("f", "", {}),),
        ),
        ([{"type": "web_search"}], (Tool("web_search"),)),
        ("a hammer", None),
        ([{"name": 5}], None),
        (["search"], None),
        (5, None),
    ],
)
def test_definitions_of_tools(given_tools: object, found: object) -> None:
    assert parse_tools(given_tools) == found


def test_a_result_without_an_id_answers_the_first_call_that_has_none() -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("f", "g", "f")]
    results: list[Json] = [
        {"role": "tool", "content": "1", "name": "g"},
        *({"role": "tool", "content": "2"},) * 3,
    ]
    trace = parse_trace(
        {"prompt": "Q", "completion": [{"role": "assistant", "tool_calls": calls}, *results]}
    )
    assert trace is not None
    assert [turn.name for turn in trace.turns[2:]] == ["g", "f", "f", ""]
    assert [role for role, _ in groupby(turn.role for turn in trace.turns)] == [
        "user",
        "assistant",
        "tool",
    ]
