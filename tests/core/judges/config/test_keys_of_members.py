"""Which key, headers and limits arrive at which server: a key goes to no other host than its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import EnvConfig, PolicySettings
from judgegym.environments.prompts_environment import PromptsConfig
from judgegym.eval_environments.models import ModelSettings
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import ChatSettings
from tests.core.server.running import running
from tests.scripted import Json, ScriptedEndpoint

VERDICT = "[FEEDBACK] So. [SCORE] 3"
ASK = {"prompt": "Why?", "response": "Because."}
HOLDS = {
    "MINE": "my-key",
    "THEIRS": "their-key",
    "ANTHROPIC_API_KEY": "sk-ant",
    "OPENAI_API_KEY": "sk-oai",
}


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HOLDS.items():
        monkeypatch.setenv(name, value)


@dataclass
class Servers:
    """Two servers of models: that of the whole, and another host's."""

    own: ScriptedEndpoint
    other: ScriptedEndpoint

    def sent(self, model: str, name: str = "Authorization") -> list[str | None]:
        """A header of the requests to a model, wherever it was asked, once if all have the same."""
        requests = [*self.own.requests, *self.other.requests]
        return list(
            dict.fromkeys(
                each.headers.get(name) for each in requests if each.json.get("model") == model
            )
        )

    def bodies(self, model: str) -> list[Json]:
        return [body for body in (*self.own.bodies, *self.other.bodies) if body["model"] == model]


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    async with ScriptedEndpoint(VERDICT) as own, ScriptedEndpoint(VERDICT) as other:
        yield Servers(own, other)


Given = dict[str, Any]


async def _ask_made(settings: Given) -> None:
    made = AnyJudgeSettings.model_validate(settings)
    async with ChatClient(replace(made.chat_settings(retry_delay=0), max_retries=0)) as client:
        await judge_responses(open_judge(made, client), JudgeTask("Why?", ("Because.",)))


async def ask_jury(whole: Given, member: Given) -> None:
    """The member `m`, beside one with the settings of the whole."""
    await _ask_made(
        {**whole, "judge": "jury", "judges": {"same": {}, "m": member}, "jury_quorum": 1}
    )


async def ask_cascade(whole: Given, member: Given) -> None:
    """The strong judge `m`, which is always asked."""
    parts = {"same": {"samples_per_item": 2}, "m": member}
    asked = {
        "cascade": parts,
        "cascade_confidence": "votes",
        "cascade_threshold": 1.0,
        "cascade_share": 1.0,
    }
    await _ask_made({**whole, "judge": "cascade", **asked, "cascade_recheck": 1.0})


def cascade_of(member: Given) -> Given:
    """A cascade whose strong judge, which is always asked, is the member."""
    rules = {
        "cascade_confidence": "votes",
        "cascade_threshold": 1.0,
        "cascade_share": 1.0,
        "cascade_recheck": 1.0,
    }
    return {"kind": "cascade", "cheap": {"samples_per_item": 2}, "strong": member, **rules}


async def ask_at_depth_3(whole: Given, member: Given) -> None:
    """The member in a cascade in a jury in a composite, beside parts with the settings of the whole."""
    jury = {"kind": "jury", "members": {"same": {}, "m": cascade_of(member)}, "jury_quorum": 1}
    await _ask_made(
        {**whole, "judge": {"kind": "composite", "parts": {"same": {"kind": "rubric"}, "m": jury}}}
    )


async def ask_mount_at_depth_3(whole: Given, member: Given) -> None:
    """The member in a cascade in a jury of a mount."""
    await ask_mount(
        whole, {"kind": "jury", "members": {"same": {}, "m": cascade_of(member)}, "jury_quorum": 1}
    )


async def ask_mount(whole: Given, member: Given) -> None:
    flags = [
        f"--{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in whole.items()
    ]
    async with running(*flags, f"--mounts={json.dumps({'m': member})}") as server:
        await server.post("/v1/score", ASK)
        await server.post("/m/v1/score", ASK)


Ask = Callable[[Given, Given], Any]
HOSTS = [
    ask_jury,
    ask_cascade,
    ask_mount,
    ask_at_depth_3,
    ask_mount_at_depth_3,
]


def whole_at(each: Servers, **more: Any) -> Given:
    headers = {"X-Team": "blue"}
    return {
        "judge_base_url": each.own.base_url,
        "judge_model_name": "w",
        "judge_api_key_env": "MINE",
        "judge_extra_headers": headers,
        "judge_extra_body": {"top_k": 5},
        "judge_max_tokens": 99,
        **more,
    }


@pytest.mark.parametrize("ask", HOSTS)
async def test_another_model_of_the_same_host_has_its_key_and_none_of_the_other_models_fields(
    ask: Ask,
) -> None:
    async with servers() as each:
        await ask(whole_at(each), {"judge_model_name": "n"})
        assert each.sent("w") == each.sent("n") == ["Bearer my-key"]
        assert each.sent("n", "X-Team") == ["blue"]
        assert {body.get("top_k") for body in each.bodies("w")} == {5}
        assert {(body.get("top_k"), body["max_tokens"]) for body in each.bodies("n")} == {
            (None, 99)
        }


@pytest.mark.parametrize("ask", HOSTS)
@pytest.mark.parametrize(
    "given", [{"judge_api_key_env": "MINE"}, {"judge_api_key_env": "ANTHROPIC_API_KEY"}]
)
async def test_another_host_has_neither_key_nor_headers(ask: Ask, given: Given) -> None:
    async with servers() as each:
        await ask(
            whole_at(each, **given),
            {"judge_base_url": each.other.base_url, "judge_model_name": "n"},
        )
        assert each.sent("w") == [f"Bearer {HOLDS[given['judge_api_key_env']]}"]
        assert each.sent("n") == [None] and each.sent("n", "X-Team") == [None]
        assert len(each.other.requests) >= 1


@pytest.mark.parametrize("ask", HOSTS)
async def test_another_host_has_the_key_of_the_variable_that_is_named_for_it(ask: Ask) -> None:
    member = {"judge_model_name": "n", "judge_api_key_env": "THEIRS"}
    async with servers() as each:
        await ask(whole_at(each), {"judge_base_url": each.other.base_url, **member})
        assert each.sent("n") == ["Bearer their-key"]
        await ask(whole_at(each), {"judge_model_name": "n2", "judge_api_key_env": "THEIRS"})
        assert each.sent("n2") == ["Bearer their-key"]  # at the same host, too


@pytest.mark.parametrize("ask", HOSTS)
async def test_key_of_a_variable_that_nobody_has_named_goes_to_no_host_but_its_own(
    ask: Ask,
) -> None:
    async with servers() as each:
        whole = {"judge_base_url": each.own.base_url, "judge_model_name": "w"}
        await ask(whole, {"judge_base_url": each.other.base_url, "judge_model_name": "n"})
        await ask(whole, {"judge_model_name": "n"})
        assert each.sent("w") == each.sent("n") == [None]


@pytest.mark.parametrize("ask", HOSTS)
async def test_public_host_of_a_member_needs_a_key_of_its_own(ask: Ask) -> None:
    async with servers() as each:
        with pytest.raises(
            SettingsError,
            match=r"judge_api_key_env: evil\.example .*API key; ANTHROPIC_API_KEY",
        ):
            await ask(
                whole_at(each),
                {"judge_base_url": "https://evil.example/v1", "judge_model_name": "n"},
            )
        assert not each.sent("n")


async def test_members_of_a_member_have_the_key_of_its_host_alone() -> None:
    """The judge around a judge is the whole that it inherits from, and its host's key goes no further."""
    async with servers() as each, ScriptedEndpoint(VERDICT) as third:
        members = {
            "x": {},
            "y": {"endpoint": {"base_url": third.base_url, "model": "third"}},
            "z": cascade_of({}),
        }
        elsewhere = {"base_url": each.other.base_url, "model": "n", "api_key_env": "THEIRS"}
        inner = {"kind": "jury", "endpoint": elsewhere, "members": members, "jury_quorum": 1}
        await _ask_made(
            {**whole_at(each), "judge": {"kind": "jury", "members": {"same": {}, "m": inner}}}
        )
        assert each.sent("w") == ["Bearer my-key"] and each.sent("n") == ["Bearer their-key"]
        assert {body["model"] for body in each.own.bodies} == {"w"}
        assert {body["model"] for body in each.other.bodies} == {"n"}
        assert [request.headers.get("Authorization") for request in third.requests] == [None]
        assert {each.sent("n", "X-Team")[0], third.requests[0].headers.get("X-Team")} == {None}


@pytest.mark.parametrize(
    ("given", "key"), [({}, None), ({"judge_api_key_env": "THEIRS"}, "Bearer their-key")]
)
async def test_gold_judge_has_no_key_but_its_own(
    tmp_path: Path, given: Given, key: str | None
) -> None:
    async with servers() as each:
        whole = whole_at(each)
        gold = {
            "judge": "rubric",
            "judge_base_url": each.other.base_url,
            "judge_model_name": "g",
            **given,
        }
        flags = [
            f"--{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in whole.items()
        ]
        watched = f"--run_dir={tmp_path}", f"--gold_judge={json.dumps(gold)}", "--gold_share=1"
        async with running(*flags, *watched) as server:
            await server.post("/v1/score", {"prompt": "Why?", "responses": ["Because.", "So."]})
            await each.other.arrived(1)
        assert each.sent("w") == ["Bearer my-key"]
        assert each.sent("g") == [key] and each.sent("g", "X-Team") == [None]


def candidate_of(config: PromptsConfig, url: str, given: Given) -> ChatSettings:
    return ModelSettings(name="m", base_url=url, **given).chat_settings(config)


def policy_of(config: PromptsConfig, url: str, given: Given) -> ChatSettings:
    return PolicySettings(model_name="m", base_url=url, **given).chat_settings(
        config, max_concurrency=1
    )


def replica_of(config: PromptsConfig, url: str, given: Given) -> ChatSettings:
    return PolicySettings(model_name="m", replicas=[{"base_url": url}], **given).chat_settings(
        config, max_concurrency=1
    )


def user_of(config: PromptsConfig, url: str, given: Given) -> ChatSettings:
    update = {
        "user_max_turns": 1,
        "user_model_name": "m",
        "user_base_url": url,
        **{f"user_{name}": each for name, each in given.items()},
    }
    return PromptsConfig(**config.model_dump(exclude_unset=True), **update).user_chat_settings(
        config, ()
    )


@pytest.mark.parametrize("settings_of", [candidate_of, policy_of, replica_of, user_of])
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, None),
        ({"api_key_env": "THEIRS"}, "Bearer their-key"),
        ({"api_key_env": "OPENAI_API_KEY"}, "Bearer sk-oai"),
        ({"api_key": "given"}, "Bearer given"),
    ],
)
async def test_who_answers_has_no_key_of_the_judge(
    settings_of: Callable[[PromptsConfig, str, Given], ChatSettings], given: Given, key: str | None
) -> None:
    judge = {
        "judge_api_key_env": "MINE",
        "judge_extra_headers": {"X-Team": "blue"},
        "judge_extra_body": {"top_k": 5},
    }
    async with servers() as each:
        chat = settings_of(PromptsConfig.model_validate(judge), each.own.base_url, given)
        async with ChatClient(chat) as client:
            await client.chat([{"role": "user", "content": "Why?"}])
        assert each.sent("m") == [key] and each.sent("m", "X-Team") == [None]
        assert "top_k" not in each.bodies("m")[0]


@pytest.mark.parametrize("settings_of", [candidate_of, policy_of, user_of])
@pytest.mark.parametrize("url", ["https://evil.example/v1", "https://api.anthropic.com/v1"])
def test_public_host_of_who_answers_needs_a_key_of_its_own(
    settings_of: Callable[[PromptsConfig, str, Given], ChatSettings], url: str
) -> None:
    with pytest.raises(
        SettingsError,
        match=r"api_key_env: .* API key; OPENAI_API_KEY .*only sent to api\.openai",
    ):
        settings_of(PromptsConfig(), url, {})


def test_each_of_several_urls_has_the_key_of_its_own_host() -> None:
    urls = "http://127.0.0.1:1/v1,https://api.anthropic.com/v1"
    judge = AnyJudgeSettings(judge_base_url=urls, judge_model_name="m").chat_settings()
    policy = PolicySettings(base_url=urls.replace("anthropic", "openai")).chat_settings(
        EnvConfig(), max_concurrency=1
    )
    for chat, key in ((judge, "sk-ant"), (policy, "sk-oai")):
        keys = [
            None if each.api_key is None else each.api_key.get_secret_value()
            for each in chat.endpoints
        ]
        assert keys == [None, key]
