"""Which form settings choose, and with which URL, key, headers and prices."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any

import pytest

from judgegym.engine.settings.policy import PolicySettings
from judgegym.judges.config.judge import STAND_IN_IDENTITY, JudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.responses.outcome import Habits
from judgegym.llm.types import Endpoint, Replica
from judgegym.reports.compare.conditions import list_notes


@pytest.mark.parametrize(
    ("settings", "api"),
    [
        ({}, "anthropic"),
        ({"judge_api": "openai"}, "openai"),
        ({"judge_base_url": "https://api.anthropic.com/v1"}, "openai"),
        ({"judge_api_key": "sk"}, "openai"),
        ({"judge_extra_body": {"top_p": 1}}, "openai"),
        ({"judge_base_url": "http://127.0.0.1:1/v1", "judge_api": "anthropic"}, "anthropic"),
    ],
)
def test_form_of_the_judge(
    settings: dict[str, Any],
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-test")
    with caplog.at_level(logging.INFO):
        chat = JudgeSettings(**settings).chat_settings()
        again = JudgeSettings(**settings).chat_settings(identity=STAND_IN_IDENTITY)
    assert (chat.endpoints[0].api, again.endpoints[0].api) == (api, "openai")
    assert ("(judge_api=anthropic)" in caplog.text) is (not settings)
    priced = (
        JudgeSettings(**settings, judge_price_input=10, judge_price_output=50)
        .chat_settings()
        .prices
    )
    assert (priced.cached_input, priced.cache_write) == (
        (1.0, 12.5) if api == "anthropic" else (None, None)
    )


def test_litellm_finds_the_provider_unless_a_url_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm")
    judge = (
        JudgeSettings(judge_api="litellm", judge_model_name="azure/gpt-4.1")
        .chat_settings()
        .endpoints[0]
    )
    assert (judge.base_url, judge.redacted_url, judge.api_key) == (
        "litellm://azure",
        "litellm://azure",
        None,
    )
    policy = PolicySettings(api="litellm", model_name="gemini/g").endpoint.servers("--openai.")[0]
    assert (policy.base_url, policy.api) == ("litellm://gemini", "litellm")
    given = PolicySettings(
        api="litellm", model_name="azure/g", base_url="https://x.example.com", api_key="k"
    ).endpoint.servers("--openai.")
    assert (given[0].base_url, given[0].api_key is not None) == ("https://x.example.com", True)


def test_headers_and_queries_of_each_endpoint() -> None:
    replicas = [
        {"base_url": "http://a/v1?api-version=2"},
        {"base_url": "http://b", "extra_headers": {"X-Own": "1"}},
    ]
    settings = PolicySettings(
        replicas=replicas, api="anthropic", extra_headers={"Anthropic-Version": "2"}, api_key="k"
    )
    first, second = map(Replica, settings.endpoint.servers("--openai."))
    assert first.url == "http://a/v1/messages?api-version=2"
    assert first.headers == {
        "Content-Type": "application/json",
        "x-api-key": "k",
        "Anthropic-Version": "2",
    }
    assert second.headers == {**first.headers, "X-Own": "1"}
    assert Endpoint("http://a/v1/messages", "m", api="anthropic").url == "http://a/v1/messages"
    with pytest.raises(SettingsError, match="also have X-Api-Key"):
        PolicySettings(
            api="anthropic", extra_headers={"X-API-Key": "k"}, api_key="k"
        ).endpoint.servers("--openai.")


def test_a_change_of_what_is_served_is_said(caplog: pytest.LogCaptureFixture) -> None:
    habits = Habits("http://x")
    for fingerprint in ("fp_1", "fp_1", "fp_2", "fp_1"):
        habits.note_served({"model": "m", "system_fingerprint": fingerprint})
    assert habits.served == Counter({"m (fp_1)": 3, "m (fp_2)": 1})
    assert len(re.findall(r"http://x .*m \(fp_2\) .*before m \(fp_1\)", caplog.text)) == 1


def test_compared_runs_say_where_other_models_were_served() -> None:
    class Run:
        is_scored, judge = True, "m"

        def __init__(self, served: dict[str, Any]) -> None:
            self.general = {"served_models": served}

    first, second = (
        Run({"judge": {"m (1)": 3}}),
        Run({"judge": {"m (2)": 1, "m (1)": 2}, "policy": {"p": 1}}),
    )
    runs: Any = (first, second)
    (said,) = list_notes(*runs, "B")
    assert all(fact in said for fact in ("The judge ", " m (1) in A", "m (1), m (2) in B"))
    assert list(list_notes(runs[0], runs[0], "B")) == []
