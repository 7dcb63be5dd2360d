"""A judge in the trainer's own process: with the stand-in as its endpoint, and what a result holds."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from judgegym import ArenaHardJudge
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import JudgeMount
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.sources import JudgeSource, close
from tests.core.server.running import running
from tests.scripted import Reply, ScriptedEndpoint
from tests.trainer import until

OFFLINE = JudgeSource(judge={"judge": "arena_hard"}, offline=True, deadline_s=60.0)
URL = "http://127.0.0.1:1"
ROW = CompletionRow({"prompt": "Name a prime.", "baseline": "Nine."}, "Seven is a prime.")


@pytest.mark.slow
async def test_offline_scores_are_those_of_the_stand_in_and_open_again_after_close() -> None:
    with ArenaHardJudge(offline=True) as judge:
        judgment = (await judge.judge("Name a prime.", "Seven is a prime.", baseline="Nine."))[0]
    for _ in range(2):
        scoring = OFFLINE.get_shared_scorer()
        [result] = await scoring.score_each([ROW])
        assert judgment.score is not None
        assert result.reward == (judgment.score + 1) / 2
        assert result.label == judgment.label
        await scoring.close()
    [again] = await scoring.score_each([ROW])
    assert again == result
    assert OFFLINE.get_shared_scorer() is scoring
    await close()


@pytest.mark.slow
async def test_offline_may_be_a_setting_of_the_judge() -> None:
    scorings = [
        JudgeSource(judge={"judge": "rubric", "offline": True}).make_scorer(),
        JudgeSource(judge={"judge": "rubric"}, offline=True).make_scorer(),
    ]
    results = [await scoring.score_each([ROW]) for scoring in scorings]
    assert results[0] == results[1]
    assert results[0][0].reward is not None
    for scoring in scorings:
        await scoring.close()
    with pytest.raises(SettingsError, match=r"^judge\.offline: .*true or false.*'yes'"):
        JudgeSource(judge={"judge": "rubric", "offline": "yes"}).make_scorer()


RULES = {"tool_not_called": 1.0, "tool_called": 0.0, "ends_with_answer": 1.0}


@pytest.mark.parametrize(("rule", "reward"), RULES.items())
async def test_messages_without_a_tool_call_are_a_trace(rule: str, reward: float) -> None:
    """An agent that called nothing has a score; of a text it is not known what was called."""
    expected = {} if rule == "ends_with_answer" else {"rule_expected": "delete_*"}
    scoring = JudgeSource(judge={"judge": "rule", "rule": rule, **expected}).make_scorer()
    messages = [{"role": "assistant", "content": "Nothing to delete."}]
    responses = (
        messages,
        "Nothing to delete.",
        [{"role": "assistant", "content": " ", "reasoning": "Hm."}],
    )
    results = await scoring.score_each(
        [make_completion_row("Tidy up.", response) for response in responses]
    )
    assert [result.reward for result in results] == [reward, None, 0.0]
    assert [result.is_invalid for result in results] == [False, False, True]
    await scoring.close()


@pytest.mark.parametrize("count", [1, 40])
async def test_a_judge_that_rejects_the_key_is_an_error_in_the_settings_at_any_size_of_a_batch(
    count: int,
) -> None:
    """A trainer would otherwise go on without any score."""
    wrong = Reply(status=401, body={"error": {"message": "wrong key"}})
    async with ScriptedEndpoint(wrong) as endpoint:
        scoring = JudgeSource(
            judge={"judge": "rubric", "judge_base_url": endpoint.base_url}
        ).make_scorer()
        for _ in range(2):
            with pytest.raises(
                SettingsError,
                match=r"endpoint refuses .*HTTP 401.*wrong key",
            ):
                await scoring.score_each(
                    [replace(ROW, response=f"{number}") for number in range(count)]
                )
        await scoring.close()


async def test_a_judge_that_is_away_for_longer_than_the_deadline_is_a_failure_and_ends_no_training() -> (
    None
):
    """The reason is that of its last call, or that of a judgment that is not begun."""
    async with ScriptedEndpoint("[FEEDBACK] fine [SCORE] 5") as endpoint:
        judge = {"judge": "rubric", "judge_base_url": endpoint.base_url}
        scoring = JudgeSource(judge=judge, deadline_s=0.2).make_scorer()

        async def is_scored() -> bool:
            return (await scoring.score_each([ROW]))[0].reward == 1.0

        await until(is_scored, "it has a score while the judge is there, however long that takes")
        async with endpoint.away():
            away = [
                await scoring.score_each([replace(ROW, response=f"{number}")])
                for number in range(3)
            ]
        await scoring.close()
    assert [(result.reward, result.status) for (result,) in away] == [(None, "judge_failed")] * 3
    assert re.search("refuses connections|Cannot connect to host", away[-1][0].explanation)


async def test_a_server_says_the_label_too() -> None:
    async with running("--judge=arena_hard", judge=lambda request, number: "[[A>>B]]") as server:
        scoring = JudgeSource(server.url, deadline_s=60.0).make_scorer()
        [result] = await scoring.score_each([ROW])
        await scoring.close()
    assert result.label == "tie"  # A in both orders


NO_URL = r"url: .*such as http://127\.0\.0\.1:8400"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": URL, "offline": True}, "offline: .*without url"),
        ({}, "expected either url"),
        ({"url": URL, "judge": {"judge": "rubric"}}, "expected either url"),
        ({"judge": {"judge": "rubric"}, "mount": "m"}, "mount: only with url"),
        ({"judge": "rubric"}, "judge: .*mapping of settings.*found 'rubric'"),
        ({"judge": {"judge": "rubric"}, "token_env": "NOT_SET"}, "token_env: only with url"),
        (
            {"url": URL, "token_env": "NOT_SET"},
            "token_env: .*NOT_SET is not set",
        ),
        (
            {"url": URL, "token": "secret", "token_env": "NOT_SET"},
            "token_env: .*token or token_env",
        ),
        ({"url": "http://u:secret@127.0.0.1:1", "token": "t"}, "token: the url .*password"),
        ({"url": URL, "token": "secret\nx"}, "token: .*character .*HTTP header"),
        ({"url": "http://127.0.0.1:1?key=secret"}, NO_URL),
        ({"url": "http://127.0.0.1:1/#secret"}, NO_URL),
        *(
            ({"url": url}, NO_URL)
            for url in ("127.0.0.1:8400", "ftp://h", "http://", "http://[::1")
        ),
        *(
            ({"url": URL, name: 7}, f"{name}: expected text, found int")
            for name in ("url", "token", "mount")
        ),
        *(
            ({"url": URL, name: value}, f"{name}: .*seconds above 0")
            for name in ("deadline_s", "timeout_s")
            for value in (0, -1.0, float("nan"), "9")
        ),
        *(
            (
                {"url": URL, "invalid_completion_score": value},
                "invalid_completion_score: .*finite number",
            )
            for value in (float("nan"), "0", True)
        ),
    ],
)
def test_sources_that_cannot_work(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=f"^{said}") as raised:
        JudgeSource(**given).make_scorer()
    assert "secret" not in str(raised.value)


def test_a_source_pickles_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_TOKEN", "secret")
    source = JudgeSource(URL, token_env="SERVER_TOKEN", mount="m")
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.bearer_token() == "secret"
    assert "secret" not in repr(JudgeSource(URL, {"judge_api_key": "secret"}, token="secret"))
    assert (
        source.get_shared_scorer()
        is JudgeSource(URL, token_env="SERVER_TOKEN", mount="m").get_shared_scorer()
    )
    monkeypatch.setenv("SERVER_TOKEN", "another")
    assert (
        source.get_shared_scorer()
        is not JudgeSource(URL, token="secret", mount="m").get_shared_scorer()
    )


async def test_settings_of_any_library_share_what_scores() -> None:
    given = {"judge": "arena_hard", "judge_api_key": "k"}
    of_mount = JudgeSource(judge=JudgeMount(**given), offline=True).get_shared_scorer()
    assert of_mount is JudgeSource(judge=MappingProxyType(given), offline=True).get_shared_scorer()
