"""A source: what a trainer's settings become, and what travels to other processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.llm.errors import SettingsError
from judgegym_trainers.single_turn import EnvironmentSource, parse_source

OFFLINE = EnvironmentSource.from_settings("rubric_absolute", offline=True)


def setting(name: str, value: object) -> Any:
    """A setting of an environment after the way through a source."""
    source = EnvironmentSource.from_settings("rubric_absolute", {name: value}, offline=True)
    return getattr(
        load_settings(RubricAbsoluteEnv, source.arguments, verb="serve").settings.env, name
    )


def test_a_source_travels_and_finds_its_equals() -> None:
    settings = {"judge_model_name": "m", "judge_max_concurrency": 3}
    source = EnvironmentSource.from_settings(
        "arena_hard", settings, config="arena_hard_train", split="eval"
    )
    same = EnvironmentSource.from_settings(
        "arena_hard", MappingProxyType(settings), config="arena_hard_train", split="eval"
    )
    assert pickle.loads(pickle.dumps(source)) == source == same
    assert len({source, same, OFFLINE}) == 2


@pytest.mark.parametrize(
    "text",
    [
        '"quoted"',
        "'q'",
        "[x]",
        '["x"]',
        '{"a": 1}',
        "null",
        "",
        " a ",
        "a\nb",
        "--x",
        "true",
        "1",
        "a=b",
        "é\u2028",
    ],
)
def test_text_arrives_as_it_is(text: str) -> None:
    assert setting("custom_system_prompt", text) == text


def test_other_values_arrive_as_they_are() -> None:
    assert setting("judge_max_concurrency", 3) == 3
    assert setting("thinking_mode", True) is True
    assert setting("train_dataset", Path("/rows.jsonl")) == "/rows.jsonl"
    assert EnvironmentSource.from_settings(
        "arena_hard", {"judge_model_name": None}
    ) == EnvironmentSource.from_settings("arena_hard")


def test_a_value_without_json_is_named() -> None:
    with pytest.raises(
        SettingsError, match=r"^settings\.judge_prompt: expected text, found bytes$"
    ):
        EnvironmentSource.from_settings("arena_hard", {"judge_prompt": b"x"})
    with pytest.raises(SettingsError, match=r"^split: .*train or eval.*'test'$"):
        EnvironmentSource.from_settings("arena_hard", split="test")  # type: ignore[arg-type]


def test_no_setting_is_shown() -> None:
    """A trainer writes its own settings into logs."""
    source = EnvironmentSource.from_settings("arena_hard", {"judge_api_key": "sk-secret-0123"})
    assert "sk-secret" not in repr(source) and "sk-secret" not in str(source)


def test_a_source_is_also_a_name_or_a_mapping() -> None:
    assert parse_source(OFFLINE) is OFFLINE
    assert parse_source("arena_hard") == EnvironmentSource.from_settings("arena_hard")
    assert parse_source({"environment": "rubric_absolute", "offline": True}) == OFFLINE
    with pytest.raises(
        SettingsError, match=r"environment\.offlin: unknown setting, did you mean offline\?"
    ):
        parse_source({"environment": "rubric_absolute", "offlin": True})
    with pytest.raises(SettingsError, match=r"expected `environment`, .*`settings`"):
        parse_source({"settings": {}})
