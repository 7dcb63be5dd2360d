"""Thinking in the answers that judges in Python get."""

from __future__ import annotations

from judgegym import ListwiseJudge, RubricJudge, RuleJudge
from tests.command import serving
from tests.core.server.running import asked
from tests.scripted import Json
from tests.thinking import stand_in

WRITTEN = "<reasoning>SECRET PLAN</reasoning>It is 42."


def test_answers_are_shown_without_their_thinking() -> None:
    shown: list[str] = []

    def answer(request: Json, number: int) -> str:
        shown.append(asked(request))
        return stand_in(request)

    with serving(answer) as endpoint:
        where = {"judge_base_url": endpoint.base_url, "judge_model_name": "m"}
        with RubricJudge("Is it right?", **where) as judge:
            judge.judge_sync(f"user: 6 * 6?\n\nassistant: {WRITTEN}\n\nuser: Sure?", "It is 36.")
            table = judge.judge_sync(
                "6 * 7?", [WRITTEN, [{"role": "assistant", "content": WRITTEN}], "<think>It is 42."]
            )
        with ListwiseJudge(**where) as group:
            group.judge_sync("6 * 7?", [WRITTEN, "It is 41."])
            group.judge_sync(
                [
                    {"role": "user", "content": "6 * 6?"},
                    {"role": "assistant", "content": WRITTEN},
                    {"role": "user", "content": "Sure?"},
                ],
                ["It is 42.", "It is 41."],
            )
    assert [judgment.status.value for judgment in table.judgments] == [
        "ok",
        "ok",
        "invalid_completion",
    ]
    assert table.answers[0] == WRITTEN
    assert len(shown) >= 5 and all("It is 42." in text and "SECRET" not in text for text in shown)


def test_rules_read_the_answer_and_the_rule_of_thinking_all_of_the_text() -> None:
    with RuleJudge(rule="exact") as rule:
        assert rule.judge_sync("6 * 7?", WRITTEN, reference="It is 42.").scores == [1.0]
    with RuleJudge(rule="length", rule_hard_limit=3) as rule:
        assert rule.judge_sync("6 * 7?", WRITTEN).scores == [1.0]
    with RuleJudge(rule="thinking_format") as rule:
        table = rule.judge_sync(
            "6 * 7?", ["<think>Hm.</think>It is 42.", "<think>It is 42.", "It is 42."]
        )
        assert table.scores == [1.0, 0.0, 0.0]
