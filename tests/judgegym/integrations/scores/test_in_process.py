"""A judge in the trainer's own process: with the stand-in as its endpoint, and what a result holds."""

from __future__ import annotations

import pickle

import pytest

from judgegym import ArenaHardJudge
from judgegym.integrations.scores.sources import JudgeSource, close, shared_scoring
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import JudgeMount
from tests.scripted import Reply, ScriptedEndpoint
from tests.server.running import running

OFFLINE = JudgeSource(judge={"judge": "arena_hard"}, offline=True, deadline_s=60.0)
URL = "http://127.0.0.1:1"
REQUEST = {"prompt": "Name a prime.", "response": "Seven is a prime.", "baseline": "Nine."}


@pytest.mark.slow
async def test_offline_scores_are_those_of_the_stand_in_and_open_again_after_close() -> None:
    with ArenaHardJudge(offline=True) as judge:
        judgment = (await judge.judge(REQUEST["prompt"], REQUEST["response"], baseline=REQUEST["baseline"]))[0]
    for _ in range(2):
        scoring = shared_scoring(OFFLINE)
        [[result]] = await scoring.score([REQUEST])
        assert judgment.score is not None
        assert result.reward == (judgment.score + 1) / 2
        assert result.label == judgment.label
        await scoring.close()
    [[again]] = await scoring.score([REQUEST])
    assert again == result
    assert shared_scoring(OFFLINE) is scoring
    await close()


@pytest.mark.slow
async def test_offline_may_be_a_setting_of_the_judge() -> None:
    scorings = [
        JudgeSource(judge={"judge": "rubric", "offline": True}).scoring(),
        JudgeSource(judge={"judge": "rubric"}, offline=True).scoring(),
    ]
    results = [await scoring.score([{"prompt": "Name a prime.", "response": "Seven."}]) for scoring in scorings]
    assert results[0] == results[1]
    assert results[0][0][0].reward is not None
    for scoring in scorings:
        await scoring.close()
    with pytest.raises(SettingsError, match=r"^judge\.offline: expected true or false, found 'yes'"):
        JudgeSource(judge={"judge": "rubric", "offline": "yes"}).scoring()


@pytest.mark.parametrize("count", [1, 40])
async def test_a_judge_that_rejects_the_key_is_an_error_in_the_settings_at_any_size_of_a_batch(count: int) -> None:
    """A trainer would otherwise go on without any score."""
    wrong = Reply(status=401, body={"error": {"message": "wrong key"}})
    async with ScriptedEndpoint(wrong) as endpoint:
        scoring = JudgeSource(judge={"judge": "rubric", "judge_base_url": endpoint.base_url}).scoring()
        for _ in range(2):
            with pytest.raises(
                SettingsError, match=r"the judge's endpoint refuses its requests: .*HTTP 401.*wrong key"
            ):
                await scoring.score([{"prompt": "Name a prime.", "response": f"{number}"} for number in range(count)])
        await scoring.close()


async def test_a_server_says_the_label_too() -> None:
    async with running("--judge=arena_hard", judge=lambda request, number: "[[A>>B]]") as server:
        scoring = JudgeSource(server.url, deadline_s=60.0).scoring()
        [[result]] = await scoring.score([REQUEST])
        await scoring.close()
    assert result.label == "tie"  # A in both orders


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (JudgeSource(URL, offline=True), "offline: only without url"),
        (JudgeSource(), "expected either url"),
        (JudgeSource(URL, {"judge": "rubric"}), "expected either url"),
        (JudgeSource(judge={"judge": "rubric"}, mount="m"), "mount: only with url"),
        (JudgeSource(judge="rubric"), "judge: expected a mapping of settings"),  # type: ignore[arg-type]
        (JudgeSource(judge={"judge": "rubric"}, token_env="NOT_SET"), "token_env: only with url"),
        (JudgeSource(URL, token_env="NOT_SET"), "token_env: the environment variable NOT_SET is not set"),
        (JudgeSource(URL, token="secret", token_env="NOT_SET"), "token_env: expected either token or token_env"),
    ],
)
def test_sources_that_cannot_work(source: JudgeSource, said: str) -> None:
    with pytest.raises(SettingsError, match=f"^{said}"):
        source.scoring()


def test_a_source_pickles_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_TOKEN", "secret")
    source = JudgeSource(URL, token_env="SERVER_TOKEN", mount="m")
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.bearer_token() == "secret"
    assert "secret" not in repr(JudgeSource(URL, {"judge_api_key": "secret"}, token="secret"))
    assert shared_scoring(source) is shared_scoring(JudgeSource(URL, token_env="SERVER_TOKEN", mount="m"))
    monkeypatch.setenv("SERVER_TOKEN", "another")
    assert shared_scoring(source) is not shared_scoring(JudgeSource(URL, token="secret", mount="m"))


async def test_settings_of_any_library_share_what_scores() -> None:
    of_mount = shared_scoring(JudgeSource(judge=JudgeMount(judge="arena_hard"), offline=True))
    assert of_mount is shared_scoring(JudgeSource(judge={"judge": "arena_hard"}, offline=True))
