from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from judgegym.engine.settings import PolicySettings
from judgegym.environments.simulated_user import UserSettings
from judgegym.eval_environments.models import ModelSettings
from judgegym.judges import prompts
from judgegym.judges.arena import ArenaJudgeSettings
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.endpoint import ReplicaSettings
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.pairwise import ChoiceJudgeSettings
from judgegym.judges.peers import PeerJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Prices
from tests.command import ROOT

KEY = "sk-this-is-secret"
ELSEWHERE = "https://judge.example/v1"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def key_of(**settings: Any) -> str | None:
    (key,) = {endpoint.api_key for endpoint in JudgeSettings(**settings).chat_settings().endpoints}
    return None if key is None else key.get_secret_value()


# --------------------------------------------------------------------------------------------------------------
# keys


LOOPBACK = [
    "http://localhost:8000/v1",
    "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1",
    "http://LOCALHOST/v1",
]


@pytest.mark.parametrize("url", [*LOOPBACK, ",".join(LOOPBACK)])
def test_this_machine_needs_no_key_and_gets_none_that_is_not_meant_for_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    assert key_of(judge_base_url=url) is None
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert key_of(judge_base_url=url) is None
    assert key_of(judge_base_url=url, judge_api_key="given") == "given"
    assert key_of(judge_base_url=url, judge_api_key_env="ANTHROPIC_API_KEY") == KEY


def test_the_default_host_takes_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert key_of() == KEY
    assert key_of(judge_base_url="https://API.anthropic.com/v2") == KEY
    assert key_of(judge_api_key="given") == "given"
    assert key_of(judge_api_key="") == KEY


@pytest.mark.parametrize(
    "url",
    [
        ELSEWHERE,
        "https://api.anthropic.com.judge.example/v1",
        "https://api.anthropic.com@judge.example/v1",
        "https://judge.example/api.anthropic.com/v1",
        f"https://api.anthropic.com/v1,{ELSEWHERE}",
        f"http://localhost:8000/v1,{ELSEWHERE}",
    ],
)
def test_another_host_does_not_get_the_default_variables_key(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with pytest.raises(
        SettingsError, match=r"judge\.example.* API key; ANTHROPIC_API_KEY"
    ) as raised:
        key_of(judge_base_url=url)
    assert KEY not in str(raised.value)


def test_another_host_gets_the_variable_that_was_named_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match="environment variable MY_KEY is not set"):
        key_of(judge_base_url=ELSEWHERE, judge_api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    assert key_of(judge_base_url=ELSEWHERE, judge_api_key_env="MY_KEY") == KEY
    assert (
        key_of(judge_base_url=ELSEWHERE, judge_api_key="given", judge_api_key_env="MY_KEY")
        == "given"
    )


def test_the_setting_that_names_the_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^--judges\.b\.judge_api_key_env: judge\.example"):
        JudgeSettings(judge_base_url=ELSEWHERE).chat_settings(section="judges.b.")


def test_a_key_that_is_missing_says_which_variable_was_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for held, state in ((None, "is not set"), ("", "is empty"), ('""', "is empty")):
        if held is not None:
            monkeypatch.setenv("ANTHROPIC_API_KEY", held)
        with pytest.raises(
            SettingsError, match=rf"the environment variable ANTHROPIC_API_KEY {state};"
        ):
            key_of()
    with pytest.raises(
        SettingsError, match=r"ANTHROPIC_API_KEY .*only sent to api\.anthropic\.com"
    ):
        key_of(judge_base_url=ELSEWHERE)


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "{}\r", ' "{}"\r\n', "`{}`", "\t{} "])
def test_keys_and_names_of_models_lose_what_env_files_leave_around_them(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", form.format(KEY))
    assert key_of() == key_of(judge_api_key=form.format(KEY)) == KEY
    name = form.format("Qwen/Qwen3 8B.gguf")
    names = {
        JudgeSettings(judge_model_name=name).judge_model_name,
        PolicySettings(model_name=name, replicas=[{"base_url": ELSEWHERE, "model_name": name}])
        .replicas[0]
        .model_name,
        PolicySettings(model_name=name).model_name,
        UserSettings(user_model_name=name).user_model_name,
        ModelSettings(name="a", model_name=name, base_url=ELSEWHERE).model_name,
    }
    assert names == {"Qwen/Qwen3 8B.gguf"}


@pytest.mark.parametrize("name", ["", "  ", '""', "'\r'", "gpt\nluna", "a\x00b"])
@pytest.mark.parametrize(
    ("settings", "field", "others"),
    [
        (JudgeSettings, "judge_model_name", {}),
        (PolicySettings, "model_name", {}),
        (ReplicaSettings, "model_name", {"base_url": ELSEWHERE}),
        (UserSettings, "user_model_name", {}),
        (ModelSettings, "model_name", {"name": "a", "base_url": ELSEWHERE}),
    ],
)
def test_a_name_of_no_model_is_refused_with_its_setting(
    settings: type[BaseModel], field: str, others: dict[str, Any], name: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        settings(**{field: name}, **others)
    (error,) = raised.value.errors()
    assert error["loc"] == (field,) and "a model's name" in error["msg"]


# -----------------------------------------------------------------------------------------------------------
# settings


def test_an_endpoint_is_waited_for_as_long_as_the_page_of_failures_says() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    assert f"`env.wait_for_endpoints` ({JudgeSettings().wait_for_endpoints:g} s)" in page


def test_a_chat_client_gets_all_of_them() -> None:
    settings = JudgeSettings(
        judge_model_name="m",
        judge_base_url="http://localhost:1/v1, http://localhost:2/v1",
        judge_api_key=SecretStr(KEY),
        judge_temperature=0.7,
        judge_max_tokens=0,
        judge_max_retries=9,
        judge_timeout=11,
        judge_deadline=12,
        judge_max_concurrency=13,
        judge_requests_per_minute=14,
        judge_tokens_per_minute=15,
        judge_cache=Path("cache"),
        judge_extra_body={"a": 1},
        judge_price_input=2,
        judge_price_output=3,
        judge_price_cached_input=0.5,
    )
    chat = settings.chat_settings(retry_delay=0.25, identity="who")
    assert [(endpoint.base_url, endpoint.model) for endpoint in chat.endpoints] == [
        ("http://localhost:1/v1", "m"),
        ("http://localhost:2/v1", "m"),
    ]
    assert (chat.temperature, chat.max_tokens, chat.max_retries) == (0.7, 0, 9)
    assert (chat.timeout_s, chat.deadline_s, chat.max_concurrency) == (11, 12, 13)
    assert (chat.requests_per_minute, chat.tokens_per_minute, chat.extra_body) == (14, 15, {"a": 1})
    assert (chat.prices, chat.retry_delay_s, chat.identity) == (Prices(2, 3, 0.5), 0.25, "who")
    assert KEY not in repr(settings) + repr(chat)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("judge_temperature", -0.1),
        ("judge_max_tokens", -1),
        ("judge_timeout", 0),
        ("judge_max_concurrency", 0),
        ("judge_price_input", -1),
        ("judge_base_url", "localhost:8000"),
    ],
)
def test_values_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        JudgeSettings(**{name: value})


def test_what_a_resumed_run_may_not_change_of_its_judge() -> None:
    shaping = {each.name for each in declared_settings(JudgeSettings) if not each.is_operational}
    assert shaping == {
        "judge_model_name",
        "judge_temperature",
        "judge_max_tokens",
        "judge_extra_body",
        "judge_image_max_side",
        "judge_critique_rounds",
        "judge_output",
        "judge_system_prompt",
        "seed",
        "judged_thinking",
        "thinking_markers",
    }


# --------------------------------------------------------------------------------------------------------------
# votes


class Voting(JudgeSettings):
    """A judge whose verdicts are made of votes."""

    votes: int = 1

    def vote_count(self) -> int:
        return self.votes


@pytest.mark.parametrize(
    ("given", "temperature"),
    [
        ({}, 0.2),
        ({"votes": 2}, 0.7),
        ({"votes": 2, "judge_temperature": 0.2}, 0.2),
        ({"votes": 1, "judge_temperature": 0.9}, 0.9),
    ],
)
def test_several_votes_are_sampled_at_a_temperature_unless_one_is_set(
    given: dict[str, Any], temperature: float
) -> None:
    settings = Voting(judge_base_url=LOOPBACK[0], **given)
    assert (settings.judge_temperature, settings.chat_settings().temperature) == (
        temperature,
        temperature,
    )
    assert ("judge_temperature" in settings.model_fields_set) == ("judge_temperature" in given)


@pytest.mark.parametrize(
    ("votes", "temperature", "warned"), [(1, 0.0, 0), (3, 0.1, 0), (3, 0.0, 1)]
)
def test_votes_that_cannot_differ_are_warned_of(
    caplog: pytest.LogCaptureFixture, votes: int, temperature: float, warned: int
) -> None:
    Voting(judge_base_url=LOOPBACK[0], votes=votes, judge_temperature=temperature).chat_settings()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warned


# -------------------------------------------------------------------------------------------------------------
# prompts


def test_a_prompt_from_a_file_is_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "judge.txt"
    path.write_bytes("Judge.\r\n  é\n".encode())
    assert (
        JudgeSettings.model_validate({"judge_system_prompt": f"@{path}"}).judge_system_prompt
        == "Judge.\r\n  é\n"
    )


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), (b"\xff", "not UTF-8")])
def test_a_prompt_that_cannot_be_read_is_an_error(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "judge.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValidationError, match=words):
        JudgeSettings.model_validate({"judge_system_prompt": f"@{path}"})


def test_the_digest_of_a_prompt_is_that_of_its_file(tmp_path: Path) -> None:
    digest = "sha256:581f76da77db553272e499c2d547ada3fd8c8114f2561cfd784bc527b9e41652"
    assert prompt_digest("Judge.") == digest
    assert JudgeSettings(judge_system_prompt="Judge.").prompt_digests() == {
        "judge_system_prompt": digest
    }


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        (ArenaJudgeSettings(), "arena_hard_three_way"),
        (ArenaJudgeSettings(judge_protocol="arena_hard_v0.1"), "arena_hard_v0_1"),
        (AspectJudgeSettings(), "aspect"),
        (PeerJudgeSettings(), "peer"),
        (ChoiceJudgeSettings(), "choice"),
    ],
)
def test_without_a_prompt_the_digest_is_that_of_the_built_in_one(
    settings: JudgeSettings, prompt: str
) -> None:
    assert settings.prompt_digests() == {"judge_system_prompt": prompt_digest(prompts.load(prompt))}


# ---------------------------------------------------------------------------------------------------
# keys in headers


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("sk-secret\nAuthorization: x", "a line break at position 10 of 26"),
        ("sk-secret key", "a space at position 10 of 13"),
        ("sk-sécret", "the character 'é' at position 5 of 9"),
    ],
)
@pytest.mark.parametrize("from_variable", [False, True])
def test_key_that_no_header_can_hold_is_refused_when_settings_are_read_and_not_shown(
    key: str, words: str, from_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    settings = JudgeSettings(
        judge_api_key_env="MY_KEY", **({} if from_variable else {"judge_api_key": SecretStr(key)})
    )
    with pytest.raises(SettingsError) as refused:
        settings.chat_settings()
    message = str(refused.value)
    setting = "judge_api_key_env" if from_variable else "judge_api_key"
    assert message.startswith(f"--env.{setting}: ") and words in message
    assert ("MY_KEY" in message) is from_variable
    assert "header" in message and "sk-" not in message and "\n" not in message


def test_yaml_infinity_is_refused() -> None:
    with pytest.raises(ValidationError, match="finite number"):
        JudgeSettings(judge_temperature=float("inf"))
