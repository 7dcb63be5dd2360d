"""The judge of rules: what has a score, what cannot say, what has failed; and that no text makes it raise."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.rules.judge import RuleDetail, RuleTaskJudge
from judgegym.judges.rules.own_function import load_function
from judgegym.judges.rules.settings import READS, RuleSettings
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

IN_WORKERS = ("expression", "regex", "json_schema", "language")
OWN = """
import asyncio, os, sys, time

def shouted(response):
    print("a function may print")
    return response.isupper()

def of_task(response, task):
    return 0.25 if task.reference in response and task.prompt == "Q" else None

async def later(response):
    await asyncio.sleep(0)
    return 1

def raises(response):
    raise KeyError("no such key")

def leaves(response):
    sys.exit(3)

def dies(response):
    os._exit(3)

def too_much(response):
    return 3.5

def hangs(response):
    time.sleep(1000)
"""


def judge_of(**given: object) -> RuleTaskJudge:
    """A judge with a client that is never opened."""
    chosen = RuleSettings.model_validate(given)
    return RuleTaskJudge(chosen, ChatClient(chosen.chat_settings()))


async def judged(
    text: str, reference: str | None = None, prompt: str = "Q", **given: object
) -> Judgment[RuleDetail]:
    return await judge_of(**given).judge(JudgeTask(prompt, (text,), reference))


def cannot_say(judgment: Judgment[RuleDetail]) -> str:
    """The reason of a judgment without a score that is no failure."""
    assert (judgment.score, judgment.status) == (None, Status.UNPARSABLE)
    assert judgment.detail is not None and not judgment.detail.says
    opening, _, why = judgment.explanation.partition(": ")
    assert "cannot say" in opening
    return why


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


async def test_a_score_says_what_was_found_and_expected() -> None:
    judgment = await judged("It is 41.", "42", rule="number")
    assert (judgment.score, judgment.status, judgment.calls) == (0.0, Status.OK, ())
    assert judgment.explanation == "found '41', expected '42'"
    assert judgment.detail == RuleDetail("number", True, "41", "42")


async def test_a_setting_is_expected_in_place_of_the_reference() -> None:
    assert (await judged("yes", "no", rule="exact", rule_expected="yes")).score == 1.0


@pytest.mark.parametrize("rule", ["number", "exact", "multiple_choice"])
async def test_without_a_reference_a_rule_cannot_say(rule: str) -> None:
    why = cannot_say(await judged("B 1", rule=rule))
    assert "no reference" in why and "rule_expected" in why


async def test_the_answer_is_what_follows_the_thinking() -> None:
    assert (await judged("<think>41, no</think>42 it is", "42", rule="number")).score == 1.0
    assert (await judged("<think>a b</think>c d e", rule="length", rule_hard_limit=3)).score == 0.0


@pytest.mark.parametrize(
    ("text", "score"),
    [("<think>a</think>b", 1.0), ("a</think>b", 0.0), ("<think>a</think>", 0.0), ("b", 0.0)],
)
async def test_format_of_thinking(text: str, score: float) -> None:
    assert (await judged(text, rule="thinking_format")).score == score
    opened = await judged(text, rule="thinking_format", rule_opened_by_template=True)
    assert opened.score == (1.0 if text == "a</think>b" else score)


@pytest.mark.parametrize(("unit", "text"), [("words", "a b c d"), ("characters", "abcd")])
async def test_a_length_beyond_the_soft_limit_costs_a_share(unit: str, text: str) -> None:
    judgment = await judged(
        text, rule="length", rule_length_unit=unit, rule_soft_limit=3, rule_hard_limit=5
    )
    assert judgment.score == 0.5


LINEAR = [
    judge_of(rule=rule, **({"rule_hard_limit": 5} if rule == "length" else {}))
    for rule in READS
    if rule not in IN_WORKERS
]


async def judge_by(judges: Sequence[RuleTaskJudge], task: JudgeTask) -> None:
    for judge in judges:
        judgment = await judge.judge(task)
        assert judgment.detail is not None and judgment.detail.says is (judgment.score is not None)


@settings(max_examples=100, deadline=None)
@given(st.text(), st.none() | st.text() | st.sampled_from(["42", "B", r"\boxed{"]), st.text())
def test_no_text_makes_a_rule_raise(text: str, reference: str | None, prompt: str) -> None:
    asyncio.run(judge_by(LINEAR, JudgeTask(prompt, (text,), reference)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "text", "expected", "score"),
    [
        ("expression", r"so it is $\frac{2}{4}$", "0.5", 1.0),
        ("expression", "$x^2+2x+1$", "(x+1)^2", 1.0),
        ("expression", r"\boxed{3}", "#### 4", 0.0),
        ("expression", "I do not know", "4", None),
        ("json_schema", 'Here:\n```json\n{"a": 1}\n```', '{"required": ["a"]}', 1.0),
        ("json_schema", "[1]", '{"type": "object"}', 0.0),
        ("json_schema", '{"outer": {"a": 1}', '{"required": ["a"]}', 0.0),
        ("json_schema", '{"outer": 1, "inner": [{"a": 1}, {"a": 1', '{"required": ["a"]}', 0.0),
        ("json_schema", '{"a": NaN}', '{"required": ["a"]}', 0.0),
        ("json_schema", 'So: {"b": [' + '{"a": 1}, ' * 3000 + "1]}", '{"required": ["b"]}', 1.0),
        ("json_schema", "{}", '{"$ref": "http://nowhere.invalid/schema"}', None),
        ("language", "Der Himmel ist blau und die Sonne scheint.", "de", 1.0),
        ("language", "Der Himmel ist blau und die Sonne scheint.", "fr", 0.0),
        ("regex", "in 1984", r"\b\d{4}\b", 1.0),
        ("regex", "in the year", r"\d", 0.0),
    ],
)
async def test_rules_with_a_library(
    rule: str, text: str, expected: str, score: float | None
) -> None:
    judgment = await judged(
        text, expected if rule != "language" else None, rule=rule, rule_expected=expected
    )
    assert judgment.score == score, judgment.explanation
    if score is None:
        cannot_say(judgment)


@pytest.mark.slow
async def test_a_code_of_no_language_is_said_before_the_first_text() -> None:
    with pytest.raises(SettingsError, match=r"rule_expected: .*language code; .* de, .*'german'"):
        await judged("Der Himmel ist blau.", rule="language", rule_expected="german")


@pytest.mark.slow
async def test_without_a_code_a_language_is_that_of_the_prompt() -> None:
    prompt, text = (
        "What colour is the sky over there, and why?",
        "Der Himmel ist blau und die Sonne scheint.",
    )
    judgment = await judged(text, prompt=prompt, rule="language")
    assert judgment.detail == RuleDetail("language", True, "de", "en")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [("regex", "a" * 40 + "!", "(a+)+$"), ("expression", "$9^{9^{9^{9^{9^9}}}}$", r"10^{10^{11}}")],
)
async def test_a_pathological_text_is_a_timeout_and_the_loop_goes_on(
    rule: str, text: str, expected: str
) -> None:
    judging = asyncio.ensure_future(judged(text, expected, rule=rule, rule_timeout=0.3))
    turns = 0
    while not judging.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert cannot_say(await judging) == "timeout after 0.3 s"
    assert turns > 5


@pytest.mark.parametrize(
    ("name", "text", "score"),
    [("shouted", "YES", 1.0), ("of_task", "a b", 0.25), ("later", "x", 1.0)],
)
async def test_a_function_of_ones_own(own: str, name: str, text: str, score: float) -> None:
    judgment = await judged(text, "b", rule=f"{own}:{name}")
    assert (judgment.score, judgment.status) == (score, Status.OK), judgment.explanation


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "KeyError: 'no such key'"),
        ("leaves", "SystemExit: 3"),
        ("dies", r"process .*\(exit code 3\)"),
        ("too_much", r"ValueError: .*from 0 to 1, .*returned 3\.5"),
    ],
)
async def test_a_function_that_raises_is_a_failed_judgment_and_the_next_is_judged(
    own: str, name: str, said: str
) -> None:
    failed = await judged("x", rule=f"{own}:{name}")
    assert (failed.score, failed.status, failed.detail) == (None, Status.JUDGE_FAILED, None)
    assert re.match(f"{re.escape(own)}:{name}: .*{said}$", failed.explanation)
    assert (await judged("YES", rule=f"{own}:shouted")).score == 1.0


async def test_a_file_that_has_changed_is_another_function_for_a_new_judge_and_none_for_the_old_one(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = judge_of(rule=f"{own}:shouted").settings
    assert (await judged("YES", rule=f"{own}:shouted")).score == 1.0
    (tmp_path / "own.py").write_text(OWN.replace("isupper", "islower"))
    assert (
        await judged("YES", rule=f"{own}:shouted")
    ).score == 0.0  # in the same worker, as after a reload
    monkeypatch.setattr("sys.path", [*sys.path])
    assert before.rule is not None and before.rule_digest is not None
    with pytest.raises(
        ValueError, match=r"own\.py has changed"
    ):  # in a worker that is started later
        load_function(before.rule, before.rule_digest)


async def test_a_function_may_not_know_and_one_that_hangs_is_killed(own: str) -> None:
    assert "returned None" in cannot_say(await judged("x", "y", rule=f"{own}:of_task"))
    assert (
        cannot_say(await judged("x", rule=f"{own}:hangs", rule_timeout=0.05))
        == "timeout after 0.05 s"
    )


@pytest.mark.parametrize(
    ("given_settings", "said"),
    [
        ({}, "rule: .*one of number, expression, "),
        (
            {"rule": "number", "rule_expected": "many"},
            "rule_expected: .*no number, found 'many'",
        ),
        (
            {"rule": "regex", "rule_expected": "("},
            r"rule_expected: no regular expression: missing \)",
        ),
        ({"rule": "{own}:nothing"}, "own.py .*no function 'nothing'"),
    ],
)
async def test_what_no_text_can_mend_is_said_before_the_first(
    own: str, given_settings: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        await judged(
            "x", **{name: value.replace("{own}", own) for name, value in given_settings.items()}
        )


async def test_the_judge_of_the_registry_scores_tasks_without_an_endpoint() -> None:
    chosen = AnyJudgeSettings(judge="rule", rule="contains")
    judge = open_judge(chosen, ChatClient(chosen.chat_settings()))
    (result,) = await judge.score(JudgeTask("Q", ("Blue, I think.",), reference="blue"))
    assert (result.score, result.judge_calls, result.usage.cost) == (1.0, 0, 0.0)
