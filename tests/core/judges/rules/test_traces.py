"""Rules over an agent's trace: what each finds, when it cannot say, and that no trace makes one raise."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgegym.judges.conversations.messages import parse_turns
from judgegym.judges.conversations.turns import ToolCall, Turn
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.rules.judge import RuleDetail, RuleTaskJudge
from judgegym.judges.rules.settings import RuleSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

Message = Mapping[str, Any]


def calling(name: str, number: str = "", **arguments: object) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": number, "function": function}],
    }


def result(content: object, number: str = "", **more: object) -> Message:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": number, "content": text, **more}


def says(text: str) -> Message:
    return {"role": "assistant", "content": text}


TRIP = (
    calling("search", "1", city="Rome", nights=2, guests={"adults": 2, "children": 0}),
    result({"hotels": ["A", "B"]}, "1"),
    calling("book", "2", hotel="A", confirmed=True),
    result({"error": "sold out"}, "2"),
    calling("book", "3", hotel="B", confirmed=True),
    result({"booked": "B", "error": None}, "3"),
    says("Hotel B is booked."),
)


def judge_of(rule: str, expected: object = None, **given: object) -> RuleTaskJudge:
    """A judge with a client that is never opened."""
    chosen = RuleSettings.model_validate({"rule": rule, "rule_expected": expected, **given})
    return RuleTaskJudge(chosen, ChatClient(chosen.chat_settings()))


def task_of(messages: Sequence[Message], **given: Any) -> JudgeTask:
    return JudgeTask("Book a hotel.", ("…",), traces=(parse_turns(messages) or (),), **given)


async def judged(
    messages: Sequence[Message], rule: str, expected: object = None, **given: object
) -> Judgment[RuleDetail]:
    return await judge_of(rule, expected, **given).judge_task(task_of(messages))


def reason(judgment: Judgment[RuleDetail]) -> str:
    """Why a rule cannot say."""
    assert (judgment.score, judgment.status) == (None, Status.UNPARSABLE)
    assert judgment.detail is not None and not judgment.detail.says
    opening, _, why = judgment.explanation.partition(": ")
    assert "cannot say" in opening
    return why


@pytest.mark.parametrize(
    ("expected", "score"),
    [
        ("search", 1.0),
        ("sea*", 1.0),
        ("cancel", 0.0),
        ("search,cancel", 0.0),
        ({"name": "search", "arguments": {"city": "Rome"}}, 1.0),
        ({"name": "search", "arguments": {"nights": 2.0}}, 1.0),
        ({"name": "search", "arguments": {"nights": "2"}}, 0.0),
        ({"name": "search", "arguments": {"guests": {"children": 0, "adults": 2}}}, 1.0),
        ({"name": "search", "arguments": {"guests": {"adults": 2}}}, 0.0),
        ({"name": "book", "arguments": {"confirmed": True}}, 1.0),
        ({"name": "book", "arguments": {"confirmed": 1}}, 0.0),
        ([{"name": "book", "arguments": {"hotel": "B"}}, "search"], 1.0),
        ({"name": "book", "arguments": {"room": None}}, 0.0),
    ],
)
async def test_a_tool_was_called_with_these_arguments_among_its_own(
    expected: object, score: float
) -> None:
    judgment = await judged(TRIP, "tool_called", expected)
    assert (judgment.score, judgment.status) == (score, Status.OK)
    assert judgment.detail is not None and judgment.detail.found == "search, book, book"


@pytest.mark.parametrize(
    ("expected", "score"),
    [
        ("search,book,book", 1.0),
        ("book,search", 0.0),
        ("book,book,book", 0.0),
        (
            [
                {"name": "book", "arguments": {"hotel": "A"}},
                {"name": "book", "arguments": {"hotel": "B"}},
            ],
            1.0,
        ),
        (
            [
                {"name": "book", "arguments": {"hotel": "B"}},
                {"name": "book", "arguments": {"hotel": "A"}},
            ],
            0.0,
        ),
    ],
)
async def test_tools_were_called_in_this_order(expected: object, score: float) -> None:
    assert (await judged(TRIP, "tool_order", expected)).score == score


SHELL = (
    calling("bash", "1", command="ls /tmp && rm  -rf /tmp/x", timeout=5),
    result("", "1"),
    says("Done."),
)
BROKEN = (
    {
        **SHELL[0],
        "tool_calls": [
            {"id": "1", "function": {"name": "bash", "arguments": '{"command": "rm -rf'}}
        ],
    },
)
ESCAPED = (
    {
        **SHELL[0],
        "tool_calls": [
            {"id": "1", "function": {"name": "bash", "arguments": r'{"c": "r\u006d -rf"}'}}
        ],
    },
)


@pytest.mark.parametrize(
    ("messages", "expected", "score"),
    [
        (TRIP, "delete_*,cancel", 1.0),
        (TRIP, "b??k", 0.0),
        (SHELL, {"name": "bash", "arguments": {"command": r"\brm\s+-rf"}}, 0.0),
        (SHELL, {"name": "bash", "arguments": {"command": r"\brm\s+-rf", "timeout": "^6"}}, 1.0),
        (SHELL, {"name": "bash", "arguments": {"command": r"\brm\s+-rf", "timeout": "^5$"}}, 0.0),
        (SHELL, {"name": "*", "arguments": "mkfs|rm "}, 0.0),
        (BROKEN, {"name": "bash", "arguments": {"command": r"\brm\s+-rf"}}, 0.0),
        (ESCAPED, {"name": "bash", "arguments": "rm -rf"}, 0.0),
        ((says("I only talk."),), "delete_*", 1.0),
    ],
)
async def test_no_destructive_call_was_made(
    messages: Sequence[Message], expected: object, score: float
) -> None:
    judgment = await judged(messages, "tool_not_called", expected)
    assert (judgment.score, judgment.status) == (score, Status.OK), judgment.explanation
    assert judgment.explanation.startswith("found " if score else "called ")


async def test_a_call_without_a_name_may_be_any_call() -> None:
    unnamed = Turn("assistant", "", "[tool call: rm]", calls=(ToolCall("", "rm"),))
    task = JudgeTask("Clean up.", ("…",), traces=((unnamed,),))
    for rule in ("tool_not_called", "tool_called", "tool_order"):
        assert "no name" in reason(await judge_of(rule, "delete").judge_task(task))


@pytest.mark.parametrize(
    ("messages", "score", "found"),
    [
        (TRIP, 1.0, "Hotel B is booked."),
        (TRIP[:-2], 0.0, "open call of book"),
        ((*TRIP[:-1], says(" ")), 0.0, "without a text"),
        ((*TRIP[:-1], says("<think>B it is</think>")), 0.0, "without a text"),
        ((*TRIP[:-2], says("Booked.")), 0.0, "open call of book"),
        ((calling("search", "1"), result("none"), says("Nothing.")), 1.0, "Nothing."),
        ((*TRIP, {"role": "user", "content": "Thanks."}), 0.0, "turn of the user"),
    ],
)
async def test_a_trace_ends_with_an_answer(
    messages: Sequence[Message], score: float, found: str
) -> None:
    judgment = await judged(messages, "ends_with_answer")
    assert judgment.detail is not None
    assert judgment.score == score and found in str(judgment.detail.found)


@pytest.mark.parametrize(
    ("results", "score"),
    [
        ([{"temperature": 21}, {"error": "no such city"}], 0.5),
        (
            [
                {"is_error": True, "text": "x"},
                {"isError": True},
                {"is_error": False},
                {"error": ""},
            ],
            0.5,
        ),
    ],
)
async def test_errors_of_tools_are_objects_that_say_so(
    results: Sequence[object], score: float
) -> None:
    judgment = await judged([result(each) for each in results], "tool_errors")
    assert (judgment.score, judgment.status) == (score, Status.OK)


async def test_whether_a_text_is_an_error_is_not_known_unless_its_format_says_so() -> None:
    unknown = await judged([result({}), result("Error: no such file")], "tool_errors")
    assert "1 of 2 tool results" in reason(unknown)
    assert "no tool result" in reason(await judged([says("Hello.")], "tool_errors"))
    flagged = [
        result("No such file", is_error=True),
        result("Sunny", is_error=False),
        result("Gone", error={"type": "file_not_found", "message": "Gone"}),
        result("Sunny", error=None),
        result("Broken", status="error"),
        result("Sunny", status="success"),
    ]
    assert (await judged(flagged, "tool_errors")).score == 0.5


TRACE_RULES = {
    "tool_called": "search",
    "tool_not_called": "search",
    "tool_order": "search",
    "ends_with_answer": None,
    "tool_errors": None,
}


@pytest.mark.parametrize("rule", TRACE_RULES)
async def test_a_text_has_no_trace_and_the_reason_tells_how_to_give_one(rule: str) -> None:
    judgment = await judge_of(rule, TRACE_RULES[rule]).judge_task(
        JudgeTask("Q", ("[tool call: search({})]",))
    )
    why = reason(judgment)
    assert "as a text" in why and '"role": "assistant"' in why and '"tool_calls"' in why


async def test_the_row_may_say_what_is_expected() -> None:
    judge = judge_of("tool_called")
    wanted = json.dumps({"name": "search", "arguments": {"city": "Rome"}})
    assert (await judge.judge_task(task_of(TRIP, reference=wanted))).score == 1.0
    assert "has no reference" in reason(await judge.judge_task(task_of(TRIP)))
    assert "not 'Rome is sunny.'" in reason(
        await judge.judge_task(task_of(TRIP, reference="Rome is sunny."))
    )


@pytest.mark.parametrize(
    ("rule", "expected", "said"),
    [
        ("tool_called", "", r"delete_\*, not ''"),
        ("tool_called", "find a hotel", "not 'find a hotel'"),
        ("tool_called", '{"name": ', "cannot be read"),
        (
            "tool_called",
            {"tool": "search"},
            "names of tools, .*name and arguments",
        ),
        ("tool_order", [3], "names of tools"),
        (
            "tool_order",
            {"name": "bash", "arguments": "rm"},
            "the arguments of bash: expected an object",
        ),
        (
            "tool_not_called",
            {"name": "bash", "arguments": {"n": 3}},
            "arguments of bash: expected regular expressions",
        ),
        ("tool_not_called", {"name": "bash", "arguments": "("}, r"cannot be read: missing \)"),
    ],
)
def test_an_expected_value_that_names_no_tools_is_one_line_before_the_first_row(
    rule: str, expected: object, said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        judge_of(rule, expected)
    assert re.match(f"rule_expected: .*{said}", str(refused.value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rule", ["ends_with_answer", "tool_errors"])
def test_a_rule_that_expects_no_tool_refuses_the_setting(rule: str) -> None:
    with pytest.raises(ValueError, match=f"rule_expected: the rule {rule} "):
        judge_of(rule, "search")


async def test_a_pattern_that_takes_too_long_is_stopped() -> None:
    slow = (calling("bash", command="a" * 40 + "!"),)
    expected = {"name": "bash", "arguments": "(a+)+$"}
    assert (
        reason(await judged(slow, "tool_not_called", expected, rule_timeout=0.05))
        == "timeout after 0.05 s"
    )


async def test_a_function_of_ones_own_sees_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "def few(response, task):\n"
        "    calls = [call for turn in task.trace for call in turn.calls]\n"
        "    return len(calls) <= 3 and calls[0].name == 'search' if calls else None\n"
    )
    judge = judge_of(f"{path}:few")
    assert (await judge.judge_task(task_of(TRIP))).score == 1.0
    assert "returned None" in reason(await judge.judge_task(JudgeTask("Q", ("text",))))


async def judge_by(judges: Sequence[RuleTaskJudge], task: JudgeTask) -> None:
    for judge in judges:
        judgment = await judge.judge_task(task)
        assert judgment.detail is not None and judgment.detail.says is (judgment.score is not None)


_ARGUMENTS = st.text() | st.sampled_from(
    ['{"a": 1}', "[" * 5000, '{"a":' * 5000, "NaN", "9" * 5000, '"\ud800"', '{"a": NaN}']
)
_CALLS = st.builds(ToolCall, st.text() | st.just("search"), _ARGUMENTS, st.text(max_size=2))
_TURNS = st.builds(
    Turn,
    st.sampled_from(["assistant", "user", "tool", "agent", ""]),
    st.text() | _ARGUMENTS,
    st.text() | _ARGUMENTS,
    calls=st.tuples() | st.tuples(_CALLS),
    answers=st.text(max_size=2),
)
DEEP = '{"name": "search", "arguments": {"a": ' + '{"a":' * 900 + "1" + "}" * 902


@settings(max_examples=20, deadline=None)
@given(st.lists(_TURNS, max_size=3), st.sampled_from(["search", DEEP]) | st.text())
def test_no_trace_makes_a_rule_raise(turns: Sequence[Turn], reference: str) -> None:
    judges = [judge_of(rule) for rule in TRACE_RULES if rule != "tool_not_called"]
    task = JudgeTask("Q", ("…",), reference=reference, traces=(tuple(turns),))
    asyncio.run(judge_by(judges, task))


async def test_arguments_that_are_nested_too_deeply_are_no_error() -> None:
    call = Turn(
        "assistant",
        "",
        "…",
        calls=(ToolCall("search", '{"a": ' + '{"a":' * 900 + "1" + "}" * 901),),
    )
    judgment = await judge_of("tool_called").judge_task(
        JudgeTask("Q", ("…",), reference=DEEP, traces=((call,),))
    )
    assert judgment.score == 1.0 or "nested too deeply" in reason(judgment)
