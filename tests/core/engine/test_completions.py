from collections.abc import Sequence
from typing import Any

import pytest

from judgegym.engine.completions import Completion, judge_completions, read_completion
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.wire import Choice


def config(**fields: Any) -> ArenaHardConfig:
    return ArenaHardConfig(**fields)


PLAIN: dict[str, Any] = {}
KEPT = {"judged_thinking": "kept"}
THINKING = {"thinking_mode": True}
BY_TEMPLATE = {"thinking_mode": True, "thinking_opened_by_template": True}

ANSWER = "an answer that is long enough"


@pytest.mark.parametrize(
    ("settings", "choice", "expected"),
    [
        (
            PLAIN,
            Choice(f"  {ANSWER}\n", finish_reason="stop"),
            Completion(f"  {ANSWER}\n", finish_reason="stop"),
        ),
        (
            PLAIN,
            Choice(f"<think>a</think> {ANSWER}"),
            Completion(ANSWER, "a", written=f"<think>a</think> {ANSWER}"),
        ),
        (
            PLAIN,
            Choice(f"<think>a {ANSWER}"),
            Completion("", f"a {ANSWER}", None, None, True, written=f"<think>a {ANSWER}"),
        ),
        (KEPT, Choice(f"<think>a</think> {ANSWER}"), Completion(f"<think>a</think> {ANSWER}")),
        (PLAIN, Choice(ANSWER, reasoning="a"), Completion(ANSWER, thinking="a")),
        (PLAIN, Choice("", refusal=f"No: {ANSWER}"), Completion(f"No: {ANSWER}")),
        (PLAIN, Choice(ANSWER, finish_reason="length"), Completion(ANSWER, finish_reason="length")),
        (PLAIN, Choice(""), Completion("", short=True)),
        (PLAIN, Choice(" \n too short \n "), Completion(" \n too short \n ", short=True)),
        (THINKING, Choice(f"<think>\na\n</think>\n\n{ANSWER} "), Completion(ANSWER, "a")),
        (THINKING, Choice(f"<think></think>{ANSWER}"), Completion(ANSWER)),
        (THINKING, Choice(ANSWER), Completion(ANSWER, thinking_fault="no_open_tag")),
        (
            THINKING,
            Choice(f" <think>a {ANSWER}"),
            Completion(f"<think>a {ANSWER}", thinking_fault="no_close_tag"),
        ),
        (
            THINKING,
            Choice(f"a</think> {ANSWER}"),
            Completion(f"a</think> {ANSWER}", thinking_fault="no_open_tag"),
        ),
        (
            THINKING,
            Choice("<think>long enough</think>"),
            Completion("<think>long enough</think>", thinking_fault="empty_answer"),
        ),
        (THINKING, Choice("<think>a</think> short"), Completion("short", "a", short=True)),
        (THINKING, Choice(ANSWER, reasoning="a"), Completion(ANSWER, "a")),
        (THINKING, Choice(f"\n {ANSWER}", reasoning="a"), Completion(ANSWER, "a")),
        (THINKING, Choice(" ", reasoning="a"), Completion("", "a", "empty_answer", short=True)),
        (
            THINKING,
            Choice("", refusal=f"No: {ANSWER}"),
            Completion(f"No: {ANSWER}", thinking_fault="no_open_tag"),
        ),
        (BY_TEMPLATE, Choice(f"a\n</think>\n{ANSWER}"), Completion(ANSWER, "a")),
        (BY_TEMPLATE, Choice(f"<think>a</think>{ANSWER}"), Completion(ANSWER, "a")),
        (BY_TEMPLATE, Choice(ANSWER), Completion(ANSWER, thinking_fault="no_open_tag")),
    ],
)
def test_a_choice_is_read(settings: dict[str, Any], choice: Choice, expected: Completion) -> None:
    found = read_completion(choice, config(**settings))
    assert found == expected
    assert found.valid is (expected.thinking_fault is None)


@pytest.mark.parametrize(
    ("answer", "is_empty"),
    [("", True), (" \u200b\n\ufeff", True), ("\u200bNo.", False), ("。", False)],
)
def test_an_answer_of_invisible_signs_is_empty(answer: str, is_empty: bool) -> None:
    reason = Completion(answer).unjudgeable
    assert (reason is not None) is is_empty
    assert reason is None or "nothing to judge" in reason


@pytest.mark.parametrize(("least", "short"), [(0, False), (4, False), (5, True)])
def test_short_is_by_characters_without_the_white_space_around(least: int, short: bool) -> None:
    assert read_completion(Choice("  数学 x\n"), config(min_response_length=least)).short is short


VALID, MALFORMED = Completion("a"), Completion("b", thinking_fault="no_close_tag")
CUT_OFF = Completion("c", finish_reason="length")


@pytest.mark.parametrize(
    ("completions", "policy_is_judge", "judged"),
    [
        ([VALID, CUT_OFF], False, ["a", "c"]),
        ([VALID, MALFORMED], False, None),
        ([VALID, MALFORMED, CUT_OFF], True, ["a", "", ""]),
    ],
)
async def test_completions_in_the_wrong_format_are_not_judged_and_hold_no_verdict(
    completions: list[Completion], policy_is_judge: bool, judged: list[str] | None
) -> None:
    async def judge(task: str, shown: Sequence[Completion]) -> Judgment[Any]:
        assert task == "task"
        return Judgment(1.0, Status.OK, detail=[completion.answer for completion in shown])

    judgment = await judge_completions(judge, "task", completions, policy_is_judge=policy_is_judge)
    assert judgment.detail == judged
    if judged is None:
        assert judgment == Judgment(None, Status.INVALID_COMPLETION, explanation="no_close_tag")
