"""The judges of the public face: in async code, in a script, in a notebook; what they refuse; what they leave open."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import judgegym
from judgegym import (
    ChecklistJudge,
    DataError,
    OwnJudge,
    RewardJudge,
    RubricJudge,
    RuleJudge,
    SettingsError,
    Steps,
)
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.peers import PeerDetail, PeerJudgeSettings, PeerTaskJudge
from judgegym.llm.client import ChatClient
from tests.checklists import saying
from tests.command import serving
from tests.scripted import Json, Meeting, ScriptedEndpoint

ROOT = Path(judgegym.__file__).resolve().parents[1]
ANSWERS = ["first", "second", "third"]


def by_answer(request: Json, _: int) -> str:
    """5 for the first answer, 3 for the second, nothing readable for the third."""
    shown = request["messages"][-1]["content"]
    return next(
        said
        for answer, said in (
            ("first", "[FEEDBACK] a [SCORE] 5"),
            ("second", "[FEEDBACK] b [SCORE] 3"),
            ("third", "?"),
        )
        if answer in shown
    )


async def test_calls_of_one_judge_at_once_get_their_own_tables() -> None:
    meeting = Meeting(2)

    async def script(request: Json, number: int) -> str:
        await meeting.wait()
        return by_answer(request, number)

    async with ScriptedEndpoint(script) as endpoint:
        with RubricJudge("Is it right?", judge_base_url=endpoint.base_url) as judge:
            first, second = await asyncio.gather(
                judge.judge("Q?", ["first"]), judge.judge("Q?", ["second"])
            )
    assert (first.scores, second.scores) == ([5.0], [3.0])


def test_scores_and_reasons_come_without_a_loop_on_a_running_one_and_on_several() -> None:
    """A notebook's cell runs on a loop that is running already."""

    async def cell(judge: RubricJudge) -> list[float | None]:
        return judge.judge_sync("Q?", ANSWERS[0]).scores

    with serving(by_answer) as endpoint:
        judge = RubricJudge("Is it right?", judge_base_url=endpoint.base_url)
        table = judge.judge_sync("Q?", ANSWERS)
        assert [asyncio.run(cell(judge)) for _ in range(2)] == [[5.0], [5.0]]
        assert [asyncio.run(judge.judge("Q?", ANSWERS[1])).scores for _ in range(2)] == [
            [3.0],
            [3.0],
        ]
        judge.close()
    assert table.scores == [5.0, 3.0, None]
    assert [judgment.status.value for judgment in table] == ["ok", "ok", "unparsable"]
    assert "unparsable" in str(table) == repr(table)


def test_checklist_judge_takes_criteria_once_or_with_each_question() -> None:
    own = [{"criterion": "Is long.", "points": 3}, {"criterion": "Is short.", "points": -3}]
    with (
        serving(saying(lambda text, _: "long" not in text)) as endpoint,
        ChecklistJudge(criteria=["Is short."], judge_base_url=endpoint.base_url) as judge,
    ):
        general = judge.judge_sync("Q?", ["one", "two"])
        (of_question,) = judge.judge_sync("Q?", "one", criteria=own)
        rows = judge.many_sync(
            [{"question": "Q?", "answer": "one", "criteria": own}], progress=False
        )
        with pytest.raises(DataError, match="criteria: criterion 1: expected a text"):
            judge.judge_sync("Q?", "one", criteria=[" "])
    with (
        ChecklistJudge(offline=True) as judge,
        pytest.raises(DataError, match="criteria: expected 1 to 256"),
    ):
        judge.judge_sync("Q?", "one")
    assert (general.scores, of_question.score, rows.scores) == ([1.0, 1.0], -1.0, [-1.0])


def test_a_misspelt_setting_is_an_error_that_names_the_right_one() -> None:
    with pytest.raises(
        SettingsError, match=r"judge_temprature: unknown setting.* did you mean judge_temp"
    ):
        RubricJudge("Is it right?", judge_temprature=0.1)


def test_a_table_shows_model_text_as_text() -> None:
    with (
        serving("[FEEDBACK] <b>bold</b> [SCORE] 2") as endpoint,
        RubricJudge("Is it right?", judge_base_url=endpoint.base_url) as judge,
    ):
        shown = judge.judge_sync("Q?", "<script>")._repr_html_()
    assert "&lt;script&gt;" in shown and "&lt;b&gt;bold" in shown and "<script>" not in shown


@pytest.mark.slow
def test_a_script_that_closes_nothing_ends_without_a_word() -> None:
    script = """
from judgegym import RubricJudge
print(RubricJudge("Is it right?", offline=True).judge_sync("How many legs?", ["Eight.", "Six legs.", "Many"]).scores)
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0 and ended.stdout.startswith("[")
    assert "Unclosed" not in ended.stderr and "ResourceWarning" not in ended.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    assert [name for name in judgegym.__all__ if not hasattr(judgegym, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Rubrik'"):
        _ = judgegym.Rubrik


def test_judge_of_ones_own_refuses_what_nothing_would_read() -> None:
    with pytest.raises(SettingsError, match="judge_critique_rounds: only built-in judges"):
        OwnJudge(peer, judge_critique_rounds=1)
    with pytest.raises(SettingsError, match="scale_max: unknown setting"):
        OwnJudge(peer, scale_max=10)


def test_prompt_without_a_name_in_a_file_is_told_when_it_is_needed() -> None:
    nameless = PromptFormat(("ANSWER",), ("ANSWER",), lambda shown: "yes")
    judge = OwnJudge(peer, offline=True, offline_prompts=[nameless])
    with pytest.raises(SettingsError, match=r"offline: .*sections \('ANSWER',\) a name"):
        judge.judge_sync("Q?", "A")


def peer(client: ChatClient) -> Judge[PeerDetail]:
    return PeerTaskJudge(PeerJudgeSettings(), client, "Is it a prime?")


def test_reward_of_parts_takes_what_its_parts_are_shown() -> None:
    parts = {"legs": {"judge": "rule", "rule": "exact"}, "style": {"judge": "rubric", "weight": 3}}
    with (
        serving("[FEEDBACK] fine [SCORE] 4") as endpoint,
        RewardJudge(reward=parts, judge_base_url=endpoint.base_url) as judge,
    ):
        rows = [
            {"question": "Legs?", "answer": answer, "reference": "8"} for answer in ("8", "6", "")
        ]
        table = judge.many_sync(rows, progress=False)
        with pytest.raises(DataError, match=r"aspects: .*no aspect 'x'"):
            judge.judge_sync("Legs?", "8", aspects="x")
    assert table.scores == [(1 + 3 * 0.75) / 4, 3 * 0.75 / 4, None]
    assert [part.score for part in table[0].detail.parts] == [1.0, 0.75]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"rule": "number", "judge_temperature": 0.5},
            "judge_temperature: .*no effect, .*a rule",
        ),
        ({"rule": "length"}, "rule_hard_limit: .*length needs it"),
    ],
)
def test_settings_that_a_rule_cannot_use_are_refused(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{said}"):
        RuleJudge(**settings)


def test_a_rule_asks_nobody_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with RuleJudge(rule="number") as judge:
        table = judge.judge_sync(
            "What is 6 * 7?", ["It is 42.", "41", "I do not know.", ""], reference="42"
        )
    assert table.scores == [1.0, 0.0, None, None]
    assert [judgment.status.value for judgment in table][2:] == ["unparsable", "invalid_completion"]
    assert (table.cost, [judgment.calls for judgment in table]) == (0, [()] * 4)


CALLED = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "Eight legs."},
    {"role": "assistant", "content": "Eight."},
]
SAID = [{"role": "assistant", "content": "Eight."}]


def test_an_answer_may_be_a_conversation_whose_trace_the_judge_reads() -> None:
    answers = [CALLED, SAID, "Eight.", [{"role": "assistant", "content": " "}]]
    with RuleJudge(rule="tool_called", rule_expected="look") as rule:
        table = rule.judge_sync("How many?", answers)
        rows = rule.many_sync(
            [{"question": "How many?", "answer": answer} for answer in answers], progress=False
        )
    assert table.scores == rows.scores == [1.0, 0.0, None, None]
    assert [judgment.status.value for judgment in table] == [
        "ok",
        "ok",
        "unparsable",
        "invalid_completion",
    ]
    assert (
        table.answers[1:3] == ("Eight.", "Eight.") and "[tool call: look({})]" in table.answers[0]
    )

    def script(request: Json, number: int) -> str:
        shown = "\n".join(message["content"] for message in request["messages"])
        return f"[FEEDBACK] So. [SCORE] {5 if '[tool call: look' in shown else 3}"

    with (
        serving(script) as endpoint,
        Steps({"judge": "rule", "rule": "contains", "rule_expected": "Eight"}) as steps,
    ):
        with RubricJudge("Did it look?", judge_base_url=endpoint.base_url) as rubric:
            assert rubric.judge_sync("How many?", answers[:2]).scores == [5.0, 3.0]
        parts = [
            each.detail.parts if each.detail else ()
            for each in steps.judge_sync("How many?", answers[:3])
        ]
    assert [[part.name for part in of_answer] for of_answer in parts] == [
        ["step_0", "step_2"],
        ["step_0"],
        ["step_0"],
    ]


def test_what_no_judge_is_shown_names_the_answer() -> None:
    picture = [{"role": "assistant", "content": [{"type": "audio", "audio": "x"}]}]
    with RuleJudge(rule="tool_called", rule_expected="look") as rule:
        with pytest.raises(DataError, match=r"^answers\[1\]: .*part of type audio"):
            rule.judge_sync("How many?", ["Eight.", picture])
        with pytest.raises(DataError, match=r"^rows\[0\]\.answer: .*part of type audio"):
            rule.many_sync([{"question": "How many?", "answer": picture}])
