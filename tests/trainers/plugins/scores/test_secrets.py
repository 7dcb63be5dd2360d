"""Secrets among settings that trainers log."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from judgegym_trainers import slime
from judgegym_trainers.scores.requests import CompletionRow
from judgegym_trainers.scores.sources import find_secret
from judgegym_trainers.verl import function
from judgegym_trainers.verl.function import compute_score
from judgegym_trainers.verl.rewards import ManagerSettings
from tests.trainers.plugins.scoring_server import answering


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"judge_extra_headers": {"X-Team": "a"}},
            "judge_extra_headers: headers are secrets, .*reward server",
        ),
        (
            {"judge_api_key": "sk-1"},
            "judge_api_key: .*environment variable in judge_api_key_env",
        ),
        ({"token": "sk-1"}, "token: .*environment variable in token_env"),
        (
            {"judges": [{"name": "a"}, {"api_key": "sk-1"}]},
            r"judges\.api_key: .*environment variable in judges\.api_key_env",
        ),
        (
            {"judge_base_url": "https://u:sk-1@host/v1"},
            "judge_base_url: .*without user, password",
        ),
        ({"url": "http://host/token/sk-1"}, "url: .*without user, .*token"),
    ],
)
def test_a_secret_is_named_and_not_shown(settings: dict[str, Any], said: str) -> None:
    found = find_secret(settings)
    assert found is not None
    assert re.match(said, found)
    assert "sk-1" not in found


def test_other_settings_are_none() -> None:
    settings = {
        "judge_api_key": "none",
        "judge_api_key_env": "KEY",
        "url": "http://host",
        "n": 3,
        "aspects": ["a"],
    }
    assert find_secret({**settings, "rubric": "Does it say to write to http://me@host?"}) is None


async def test_verl_and_slime_send_the_token_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both print their settings, so that a token among them is read by others."""
    monkeypatch.setenv("SOME_TOKEN", "sk-1")
    sent = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.headers.get("Authorization"))
        return web.json_response({"score": 0.5, "status": "ok"})

    async with answering(answer) as url:
        settings: dict[str, Any] = {"url": url, "token_env": "SOME_TOKEN"}
        assert (
            await compute_score("d", "r", "t", {"question": "q"}, on_failure="score", **settings)
        )["score"] == 0.5
        scoring = ManagerSettings.read(settings, {}).make_scorer()
        await scoring.score_each([CompletionRow({"prompt": "q"}, "r")])
        state = {"group_index": 0, "index": 0, "status": "completed", "remove_sample": False}
        sample = SimpleNamespace(prompt="q", response="r", label="", metadata={}, **state)
        assert await slime.reward(SimpleNamespace(judgegym=settings), sample) == 0.5
        await scoring.close()
        await function.close()
        await slime.close()
    assert sent == ["Bearer sk-1"] * 3
