"""The judges of groups of the public face: texts and conversations, empty answers, the table, what they refuse."""

from __future__ import annotations

import asyncio

import pytest

from judgegym import DataError, ListwiseJudge, SettingsError, TournamentJudge
from tests.command import serving
from tests.listwise import judging, shown_answers
from tests.scripted import Json

ANSWERS = ["good", "poor", "fair"]
QUALITY = {"good": 0.9, "fair": 0.5, "poor": 0.2, "base": 0.4}


def by_quality(text: str, place: int) -> float:
    return next((score for name, score in QUALITY.items() if name in text), 0.0)


def shown(request: Json) -> str:
    content: str = request["messages"][-1]["content"]
    return content


def test_scores_of_a_group_are_in_the_order_of_the_answers() -> None:
    with serving(judging(by_quality)) as endpoint:
        with ListwiseJudge(
            "Be brief.", judge_base_url=endpoint.base_url, listwise_orders=2
        ) as judge:
            table = judge.judge_sync(
                "Q?", ANSWERS, reference="The reference.", context="The context."
            )
        assert asyncio.run(judge.judge("Q?", ANSWERS)).scores == table.scores == [0.9, 0.2, 0.5]
        judge.close()
    assert (table.orders.agreed, table.orders.pairs) == (3, 3)
    assert all(
        text in shown(endpoint.bodies[0])
        for text in ("Be brief.", "Q?", "The reference.", "The context.")
    )
    assert "3 of 3 pairs" in str(table) and "of 3: 0.9" in str(table)


def test_score_with_a_baseline_says_how_an_answer_compares_with_it() -> None:
    with (
        serving(judging(by_quality)) as endpoint,
        ListwiseJudge(judge_base_url=endpoint.base_url) as judge,
    ):
        assert judge.judge_sync("Q?", "good", baseline="base").scores == [0.75]
        assert judge.judge_sync("Q?", ["good", "poor"], baseline=" ").scores == [
            0.9,
            0.2,
        ]  # a blank one is none
    assert [len(shown_answers(body)) for body in endpoint.bodies] == [2, 2]


def test_empty_answers_are_not_judged_and_say_so() -> None:
    with (
        serving(judging(by_quality)) as endpoint,
        ListwiseJudge(judge_base_url=endpoint.base_url) as judge,
    ):
        table = judge.judge_sync("Q?", ["good", " \n", "poor", ""])
        nothing = judge.judge_sync("Q?", ["", ""])
    assert table.scores == [0.9, None, 0.2, None]
    assert [judgment.status for judgment in table] == ["ok", "invalid_completion"] * 2
    assert [len(shown_answers(body)) for body in endpoint.bodies] == [2]
    assert nothing.scores == [None, None]


def test_a_wrong_conversation_is_an_error_that_names_the_answer() -> None:
    judge = ListwiseJudge(offline=True)
    with pytest.raises(DataError, match=r"answers\[1\]: .*list of messages, 0\.role: .*required"):
        judge.judge_sync("Q?", ["fine", [{"content": "no role"}]])
    with pytest.raises(DataError, match=r"the question: .*list of messages, found 5 \(int\)"):
        judge.judge_sync(5, ["fine", "well"])  # type: ignore[arg-type]


def test_conversations_are_written_out_and_what_all_share_is_shown_once() -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"at": "web"}'},
    }
    shared = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a spider", "tool_call_id": "1"},
    ]
    answers = [[*shared, {"role": "assistant", "content": text}] for text in ANSWERS]
    with (
        serving(judging(by_quality)) as endpoint,
        ListwiseJudge(judge_base_url=endpoint.base_url) as judge,
    ):
        question = [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "How many legs?"},
        ]
        table = judge.judge_sync(question, [*answers, [{"role": "assistant", "content": None}]])
        picture = [{"role": "user", "content": [{"type": "image_url"}]}]
        with pytest.raises(DataError, match=r"type image, .*no judge"):
            judge.judge_sync(picture, answers)
    assert table.scores == [0.9, 0.2, 0.5, None], "the last one has no text of the policy"
    prompt = shown(endpoint.bodies[0])
    assert (
        prompt.count('[tool call: look({"at":"web"})]')
        == prompt.count("tool (look): a spider")
        == 1
    )
    assert sorted(answer.text for answer in shown_answers(endpoint.bodies[0])) == sorted(ANSWERS)
    assert "system: Be kind.\n\nuser: How many legs?" in prompt


def test_settings_that_a_judge_of_groups_does_not_have_are_refused() -> None:
    with pytest.raises(SettingsError, match="schedule: unknown setting"):
        ListwiseJudge(schedule="all")
    with pytest.raises(
        SettingsError, match="schedule: input should be 'all', 'swiss', 'balanced' or 'circular'"
    ):
        TournamentJudge(schedule="foo")
    with pytest.raises(SettingsError, match="judge_critique_rounds"):
        ListwiseJudge(judge_critique_rounds=1, judge_base_url="http://localhost:1").judge_sync(
            "Q?", ANSWERS
        )
