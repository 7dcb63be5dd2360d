"""The models that a run compares: their settings, their keys, and what their clients get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from judgegym.engine.settings import EnvConfig
from judgegym.eval_environments.models import Models, ModelSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Prices

LOCAL, FAR, DEFAULT = (
    "http://127.0.0.1:9/v1",
    "https://models.example/v1",
    "https://api.openai.com/v1",
)
KEY = "sk-secret-of-a-model"
MODELS: TypeAdapter[list[ModelSettings]] = TypeAdapter(Models)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "KEY_OF_FAR"):
        monkeypatch.delenv(name, raising=False)


def config(**values: Any) -> EnvConfig:
    return EnvConfig(**values)


def test_models_from_json_and_from_a_list() -> None:
    models: list[dict[str, Any]] = [
        {"name": "a", "base_url": LOCAL},
        {"name": "b", "answers": "b.jsonl"},
    ]
    from_json, from_list = (
        MODELS.validate_python(json.dumps(models)),
        MODELS.validate_python(models),
    )
    assert from_json == from_list
    assert [(each.name, each.base_url, each.answers) for each in from_json] == [
        ("a", LOCAL, None),
        ("b", None, Path("b.jsonl")),
    ]
    assert MODELS.validate_python([]) == []


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([{"name": "a"}], "'a' needs .*base_url or .*answers"),
        ([{"base_url": LOCAL}], "name"),
        (
            [{"name": "a", "base_url": LOCAL}, {"name": "a", "answers": "a.jsonl"}],
            "two models .*'a'",
        ),
        ([{"name": "a", "base_url": "nowhere"}], "base_url"),
        ([{"name": "a", "base_url": LOCAL, "max_concurrency": 0}], "max_concurrency"),
        ([{"name": "a", "base_url": LOCAL, "price_input": -1}], "price_input"),
        ([{"name": "a", "base_url": LOCAL, "modelname": "b"}], "modelname"),
        ('[{"name": "a"', "Expecting"),
        ('{"name": "a"}', "list"),
    ],
)
def test_what_is_no_list_of_models(models: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        MODELS.validate_python(models)


def test_a_key_is_shown_nowhere() -> None:
    model = ModelSettings(name="a", base_url=LOCAL, api_key=SecretStr(KEY))
    for shown in (repr(model), str(model), str(model.model_dump()), model.model_dump_json()):
        assert KEY not in shown


def test_what_a_client_gets() -> None:
    model = ModelSettings(
        name="shown",
        model_name="served",
        base_url=f"{LOCAL},{FAR}",
        api_key=SecretStr(KEY),
        extra_body={"top_p": 0.5},
        max_concurrency=3,
        price_input=1.0,
        price_output=2.0,
        price_cached_input=0.5,
    )
    chat = model.chat_settings(
        config(judge_temperature=0.3, judge_max_tokens=77, judge_max_retries=5, retry_delay=0.5)
    )
    assert [(each.base_url, each.model) for each in chat.endpoints] == [
        (LOCAL, "served"),
        (FAR, "served"),
    ]
    assert {
        each.api_key.get_secret_value() for each in chat.endpoints if each.api_key is not None
    } == {KEY}
    assert (chat.temperature, chat.max_tokens, chat.max_retries, chat.retry_delay_s) == (
        0.3,
        77,
        5,
        0.5,
    )
    assert (chat.extra_body, chat.max_concurrency) == ({"top_p": 0.5}, 3)
    assert chat.prices == Prices(1.0, 2.0, 0.5)


def test_a_model_that_only_answers_has_the_patience_of_a_policy() -> None:
    given = config(policy_deadline=50.0, max_retries=2, judge_max_retries=5, judge_deadline=7.0)
    chat = ModelSettings(name="a", base_url=LOCAL).chat_settings(given, timeout_s=33.0)
    assert (chat.timeout_s, chat.deadline_s, chat.max_retries) == (33.0, 50.0, 2)


def test_a_model_is_called_by_its_name_unless_it_has_another() -> None:
    (endpoint,) = ModelSettings(name="a", base_url=LOCAL).chat_settings(config()).endpoints
    assert (endpoint.model, endpoint.api_key) == ("a", None)


def key_of(model: ModelSettings) -> str | None:
    (endpoint,) = model.chat_settings(config()).endpoints
    return None if endpoint.api_key is None else endpoint.api_key.get_secret_value()


def test_a_key_goes_to_no_host_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in OPENAI_API_KEY is OpenAI's, unless the model names it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("KEY_OF_FAR", "another")
    assert key_of(ModelSettings(name="a", base_url=DEFAULT)) == KEY
    assert key_of(ModelSettings(name="a", base_url=LOCAL)) is None
    assert key_of(ModelSettings(name="a", base_url=FAR, api_key_env="KEY_OF_FAR")) == "another"
    assert key_of(ModelSettings(name="a", base_url=FAR, api_key_env="OPENAI_API_KEY")) == KEY
    with pytest.raises(
        SettingsError,
        match=r"'a': api_key_env: models\.example .*OPENAI_API_KEY .*only sent to api\.openai\.com",
    ):
        key_of(ModelSettings(name="a", base_url=FAR))


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(SettingsError, match=r"'a'.*models\.example.*KEY_OF_FAR is not set"):
        key_of(ModelSettings(name="a", base_url=FAR, api_key_env="KEY_OF_FAR"))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"name": "b", "model_name": "a"}, True),
        ({"name": "b"}, False),
        ({"model_name": "b"}, False),
        ({"base_url": FAR}, False),
        ({"extra_body": {"top_p": 0.5}}, False),
        ({"api_key": KEY}, False),
    ],
)
def test_which_models_are_one_client(other: dict[str, Any], same: bool) -> None:
    first = ModelSettings(name="a", base_url=LOCAL)
    second = ModelSettings(**{"name": "a", "base_url": LOCAL, **other})
    assert (first.identity == second.identity) is same
