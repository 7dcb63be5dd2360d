from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from judgegym.engine.settings import EnvConfig, EnvSettings, PolicySettings
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import Endpoint
from judgegym.llm.usage import Prices
from tests.core.engine.loading import loaded_from

KEY = "sk-very-secret"
ONE, TWO = "http://127.0.0.1:1/v1", "http://localhost:2/v1"
ELSEWHERE = "https://policy.example/v1"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def endpoints(**fields: Any) -> list[tuple[str, str, str | None]]:
    """URL, model and key of each server that these settings mean."""
    found = PolicySettings(**fields).chat_settings(EnvConfig(), max_concurrency=1).endpoints
    return [shown(each) for each in found]


def shown(endpoint: Endpoint) -> tuple[str, str, str | None]:
    key = endpoint.api_key
    return endpoint.base_url, endpoint.model, None if key is None else key.get_secret_value()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"base_url": ONE, "model_name": "m"}, [(ONE, "m", None)]),
        ({"base_url": f"{ONE} , {TWO},", "model_name": "m"}, [(ONE, "m", None), (TWO, "m", None)]),
        ({"base_url": ONE, "api_key": "k"}, [(ONE, DEFAULT_POLICY, "k")]),
        ({"base_url": ELSEWHERE, "api_key": "k"}, [(ELSEWHERE, DEFAULT_POLICY, "k")]),
        (
            {
                "model_name": "m",
                "api_key": "k",
                "replicas": [{"base_url": ONE}, {"base_url": TWO, "api_key": "l"}],
            },
            [(ONE, "m", "k"), (TWO, "m", "l")],
        ),
        (
            {
                "model_name": "m",
                "replicas": [{"base_url": ONE, "model_name": "n"}, {"base_url": TWO}],
            },
            [(ONE, "n", None), (TWO, "m", None)],
        ),
    ],
)
def test_the_servers(fields: dict[str, Any], expected: list[tuple[str, str, str | None]]) -> None:
    assert endpoints(**fields) == expected


def test_a_key_from_a_variable_goes_to_the_host_that_it_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MINE", "mine")
    assert endpoints()[0][2] == KEY
    assert endpoints(base_url=ONE)[0][2] is None
    assert endpoints(base_url=ONE, api_key_env="MINE")[0][2] == "mine"
    assert endpoints(base_url=ELSEWHERE, api_key_env="MINE")[0][2] == "mine"
    with pytest.raises(SettingsError, match=r"policy\.example .*OPENAI_API_KEY .*api\.openai\.com"):
        endpoints(base_url=ELSEWHERE)
    keys = [
        key
        for _, _, key in endpoints(
            replicas=[{"base_url": "https://api.openai.com/v1"}, {"base_url": ONE}]
        )
    ]
    assert keys == [KEY, None]


def test_what_the_chat_client_is_told() -> None:
    config = EnvConfig(
        max_retries=7, retry_delay=0.5, policy_deadline=22, endpoint_away_deadline=66
    )
    server = PolicySettings(
        base_url=ONE, timeout=11, requests_per_minute=33, tokens_per_minute=44,
        extra_body={"top_p": 0.5}, price={"input": 1.0, "output": 2.0, "cached_input": 0.5},
    )  # fmt: skip
    found = server.chat_settings(config, max_concurrency=55)
    assert (found.timeout_s, found.deadline_s, found.max_retries, found.retry_delay_s) == (
        11,
        22,
        7,
        0.5,
    )
    assert (found.away_deadline_s, found.title, found.section) == (22, "the policy", "env."), (
        "that of a call is less"
    )
    assert (found.requests_per_minute, found.tokens_per_minute, found.max_concurrency) == (
        33,
        44,
        55,
    )
    assert (found.extra_body, found.prices) == ({"top_p": 0.5}, Prices(1.0, 2.0, 0.5))


def test_reasoning_parameters_are_sent_where_they_are_set_and_never_for_thinking_mode() -> None:
    def sent(**fields: Any) -> Any:
        return (
            PolicySettings(base_url=ONE)
            .chat_settings(EnvConfig(**fields), max_concurrency=1)
            .extra_body
        )

    assert sent(thinking_mode=True) == {}
    assert "high" in str(sent(reasoning_effort="high"))
    server = PolicySettings(base_url=ONE, extra_body={"reasoning": "mine"})
    body = server.chat_settings(EnvConfig(reasoning_effort="high"), max_concurrency=1).extra_body
    assert body["reasoning"] == "mine", "what is given by hand wins"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": "nonsense"}, "not a URL"),
        ({"replicas": [{"base_url": "ftp://x"}]}, "not a URL"),
        ({"timeout": 0}, "greater than 0"),
        ({"num_requests_for_eval": 0}, "greater than or equal to 1"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_what_a_server_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        PolicySettings(**fields)


@pytest.mark.parametrize(
    ("flags", "policy", "judge"),
    [
        ((), 100, 100),
        (("--env.max_retries=3",), 3, 3),
        (("--env.judge_max_retries=4",), 100, 4),
        (("--env.max_retries=3", "--env.judge_max_retries=4"), 3, 4),
    ],
)
def test_max_retries_is_of_policy_and_judge(
    flags: tuple[str, ...], policy: int, judge: int
) -> None:
    settings = loaded_from(
        *flags, f"--env.judge_base_url={ONE}", f"--openai.base_url={ONE}"
    ).settings
    assert settings.openai.chat_settings(settings.env, max_concurrency=1).max_retries == policy
    assert settings.env.chat_settings().max_retries == judge


SECRET_FLAGS = [
    f"--env.judge_api_key={KEY}",
    f"--openai.api_key={KEY}",
    f"--env.judge_base_url=http://user:{KEY}@127.0.0.1:9/v1",
    f'--openai.replicas=[{{"base_url": "http://u:{KEY}@127.0.0.1:9/v1", "api_key": "{KEY}"}}, '
    f'{{"base_url": "{ONE}"}}]',
]


def test_what_is_public_has_no_secrets() -> None:
    public = loaded_from(*SECRET_FLAGS).settings.public()
    assert KEY not in str(public)
    assert "http://127.0.0.1:9/v1" in str(public)
    assert ONE in str(public)


@pytest.mark.parametrize(
    "flags",
    [
        (
            "--limit=3",
            "--env.seed=5",
            "--env.custom_system_prompt=a: 'b' #c\nd é",
            "--env.judge_temperature=1e-07",
        ),
        (
            '--env.judge_extra_body={"a": {"b": [1, null, "on"]}}',
            "--env.model_answers=some/file.jsonl",
        ),
        (
            "--env.judge_cache=a/b.sqlite",
            "--openai.requests_per_minute=3",
            f"--openai.base_url={ONE},{TWO}",
        ),
        (
            f'--openai.replicas=[{{"base_url": "{ONE}", "model_name": "a"}}, {{"base_url": '
            f'"{TWO}"}}]',
        ),
    ],
)
def test_what_is_public_can_be_loaded_again(tmp_path: Path, flags: tuple[str, ...]) -> None:
    first: EnvSettings[Any] = loaded_from(*flags).settings
    path = tmp_path / "config.yaml"
    path.write_text(
        yaml.safe_dump(first.public(), sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    again = loaded_from(f"--config={path}").settings
    assert again.public() == first.public()
    assert again.matters() == first.matters()
    assert (again.env, again.openai, again.limit) == (first.env, first.openai, first.limit)


SHAPES = {"env.judge_temperature", "env.judge_max_tokens", "env.judge_model_name", "env.judge_extra_body",
          "env.judge_protocol", "env.judge_reask", "env.eval_temperature", "env.eval_max_tokens", "env.thinking_mode",
          "env.custom_system_prompt", "env.custom_thinking_prompt", "env.min_response_length", "env.seed",
          "env.model_answers", "env.train_prompt_dataset", "env.train_baseline_dataset", "env.eval_prompt_dataset",
          "env.eval_baseline_dataset", "env.eval_split", "env.thinking_opened_by_template", "env.reasoning_effort",
          "openai.model_name", "openai.extra_body", "limit"}  # fmt: skip
DOES_NOT = {"env.judge_base_url", "env.judge_max_concurrency", "env.judge_timeout", "env.judge_cache",
            "env.judge_max_retries", "env.max_judge_error_rate", "env.retry_delay", "env.max_retries", "env.use_wandb",
            "env.full_debug", "env.data_dir_to_save_evals", "env.group_size", "env.rollout_temperature",
            "env.judge_price_input", "openai.base_url", "openai.timeout", "openai.num_requests_for_eval",
            "openai.replicas", "env.tokenizer_name", "env.total_steps"}  # fmt: skip


def test_which_settings_a_resumed_run_must_not_change() -> None:
    matters = set(loaded_from().settings.matters())
    assert SHAPES - matters == set()
    assert DOES_NOT & matters == set()
