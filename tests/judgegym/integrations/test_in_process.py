"""A judge in the trainer's own process: with the stand-in as its endpoint, and what a result holds."""

from __future__ import annotations

import pytest

from judgegym import ArenaHardJudge
from judgegym.integrations.scores.sources import SharedScorings, scoring_of
from judges.llm.errors import SettingsError
from tests.judges.server.running import running

LIMITS = {"token": None, "mount": "", "timeout_s": 30.0, "deadline_s": 60.0}
REQUEST = {"prompt": "Name a prime.", "response": "Seven is a prime.", "baseline": "Nine."}


async def test_offline_scores_are_those_of_the_stand_in_and_open_again_after_close() -> None:
    with ArenaHardJudge(offline=True) as judge:
        judgment = (await judge.judge(REQUEST["prompt"], REQUEST["response"], baseline=REQUEST["baseline"]))[0]
    scorings = SharedScorings()
    for _ in range(2):
        scoring = scorings.of(None, {"judge": "arena_hard"}, offline=True, **LIMITS)
        [[result]] = await scoring.score([REQUEST])
        assert judgment.score is not None
        assert result.score == (judgment.score + 1) / 2
        assert result.label == judgment.label
        await scoring.close()
    [[again]] = await scoring.score([REQUEST])
    assert again == result
    assert scorings.of(None, {"judge": "arena_hard"}, offline=True, **LIMITS) is scoring
    await scorings.close()


async def test_offline_may_be_a_setting_of_the_judge() -> None:
    scorings = [
        scoring_of(None, {"judge": "rubric", "offline": True}, **LIMITS),
        scoring_of(None, {"judge": "rubric"}, offline=True, **LIMITS),
    ]
    results = [await scoring.score([{"prompt": "Name a prime.", "response": "Seven."}]) for scoring in scorings]
    assert results[0] == results[1]
    assert results[0][0][0].score is not None
    for scoring in scorings:
        await scoring.close()
    with pytest.raises(SettingsError, match=r"^judge\.offline: expected true or false, found 'yes'"):
        scoring_of(None, {"judge": "rubric", "offline": "yes"}, **LIMITS)


async def test_a_server_says_the_label_too() -> None:
    async with running("--judge=arena_hard", judge=lambda request, number: "[[A>>B]]") as server:
        scoring = scoring_of(server.url, None, **LIMITS)
        [[result]] = await scoring.score([REQUEST])
        await scoring.close()
    assert result.label == "tie"  # A in both orders


def test_offline_is_not_for_a_server() -> None:
    with pytest.raises(SettingsError, match=r"^offline: only without url"):
        scoring_of("http://127.0.0.1:1", None, offline=True, **LIMITS)
