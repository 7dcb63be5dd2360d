"""Secrets among settings that trainers log."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.integrations.scores.secrets import secret_in


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"judge_api_key": "sk-1"}, "judge_api_key: expected the name of an environment variable in judge_api_key_env"),
        ({"token": "sk-1"}, "token: expected the name of an environment variable in token_env"),
        (
            {"judges": [{"name": "a"}, {"api_key": "sk-1"}]},
            "judges.api_key: expected the name of an environment variable in judges.api_key_env",
        ),
        ({"judge_base_url": "https://u:sk-1@host/v1"}, "judge_base_url: expected a URL without user, password"),
        ({"url": "http://host/token/sk-1"}, "url: expected a URL without user, password and token"),
    ],
)
def test_a_secret_is_named_and_not_shown(settings: dict[str, Any], said: str) -> None:
    found = secret_in(settings)
    assert found is not None
    assert found.startswith(said)
    assert "sk-1" not in found


def test_other_settings_are_none() -> None:
    settings = {"judge_api_key": "none", "judge_api_key_env": "KEY", "url": "http://host", "n": 3, "aspects": ["a"]}
    assert secret_in({**settings, "rubric": "Does it say to write to http://me@host?"}) is None
