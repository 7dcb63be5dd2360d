"""The dated file of models: lifecycle and prices, whose they are, and what is said of a model that has ended."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from pydantic import SecretStr

from judgegym.engine.settings import PolicySettings
from judgegym.environments.simulated_user import UserSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.cost import models
from judgegym.llm.cost.budget import Budget
from judgegym.llm.cost.models import (
    DEFAULT_JUDGE,
    DEFAULT_POLICY,
    SOON,
    known_models,
    warn_if_retired,
)
from judgegym.llm.cost.prices import find_prices
from judgegym.llm.errors import EndpointError
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.usage import Prices, Usage
from tests.forking import ROOT
from tests.scripted import Reply, ScriptedEndpoint

Connect = Callable[..., ChatClient]
OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
RETIRED = "claude-sonnet-4-20250514"
TODAY = date(2026, 11, 28)
A_YEAR = timedelta(days=365)

PUBLISHED = {
    "docs/environments/arena_hard.md": {"gpt-4-1106-preview", "gpt-3.5-turbo-0125", "gpt-4-0613"},
    "docs/runs.md": {"gpt-3.5-turbo-0125"},
}
"""Models that have ended, and whose published answers or numbers a page shows."""


@pytest.fixture(autouse=True)
def _that_day(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(models, "today", lambda: TODAY)
    warn_if_retired.cache_clear()
    yield
    warn_if_retired.cache_clear()


# ---------------------------------------------------------------------------------------------------------
# the defaults


def test_no_default_has_ended_or_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the real today: the day on which this fails, the default is to be changed."""
    monkeypatch.undo()
    for default in (DEFAULT_JUDGE, DEFAULT_POLICY):
        model = known_models()[default]
        assert not model.ends_within(SOON, models.today()), model.describe_end(
            default, models.today()
        )
    assert not known_models()[DEFAULT_POLICY].ends_within(A_YEAR, TODAY)


def test_all_defaults_are_the_constants() -> None:
    assert JudgeSettings().judge_model_name == DEFAULT_JUDGE == "claude-sonnet-4-6"
    assert PolicySettings().model_name == UserSettings().user_model_name == DEFAULT_POLICY


def test_presets_name_the_constants() -> None:
    settings = {"judge_model_name": DEFAULT_JUDGE, "user_model_name": DEFAULT_POLICY}
    named = [
        (path, *found)
        for path in (ROOT / "judgegym" / "presets").glob("*.yaml")
        for found in re.findall(
            r"\b(judge_model_name|user_model_name): ([\w./-]+)", path.read_text("utf-8")
        )
    ]
    assert len(named) >= 14
    assert [each for each in named if each[2] != settings[each[1]]] == []


def test_the_default_judge_has_its_name_wherever_it_is_written_out() -> None:
    words = DEFAULT_JUDGE.title().replace("-", " ", 2).replace("-", ".")
    for path in documents():
        if path.suffix != ".py":
            for found in re.findall(
                r"(?:default judge|Judge:|judged by|and) (Claude \w+ [\d.]*\d)",
                path.read_text("utf-8"),
            ):
                assert found == words, path


def test_no_page_preset_or_example_names_a_model_that_has_ended_or_ends_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the real today, as above; also those in docstrings, which are shown to users as help."""
    monkeypatch.undo()
    ended = {
        name for name, model in known_models().items() if model.ends_within(SOON, models.today())
    }
    found = {
        str(path.relative_to(ROOT)): named(ended, path.read_text("utf-8")) for path in documents()
    }
    assert {
        path: names for path, names in found.items() if names - PUBLISHED.get(path, set())
    } == {}


def named(names: Iterable[str], text: str) -> set[str]:
    """The names that stand in a text by themselves, and not as a part of another name or of a file's."""
    return {
        name
        for name in names
        if name in text and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|[./]\w)", text)
    }


def documents() -> Iterator[Path]:
    """What tells users which models to ask."""
    yield ROOT / "README.md"
    for folder, pattern in (
        ("docs", "*.md"),
        ("judgegym/presets", "*"),
        ("judgegym", "*.py"),
        ("examples", "*.*"),
    ):
        for path in (ROOT / folder).rglob(pattern):
            is_data = path.is_relative_to(ROOT / "judgegym" / "llm" / "cost") or path.suffix in (
                ".png",
                ".pyc",
            )
            if path.is_file() and not is_data:
                yield path


# ---------------------------------------------------------------------------------------------------------
# the file


def test_every_entry_has_a_date_sources_and_prices_that_can_be() -> None:
    assert {model.provider for model in known_models().values()} == {
        "OpenAI",
        "Anthropic",
        "Google",
        "xAI",
    }
    for name, model in known_models().items():
        assert (
            all("." in host for host in model.hosts) and date(2025, 1, 1) < model.as_of <= TODAY
        ), name
        assert {urlsplit(model.lifecycle).scheme, urlsplit(model.pricing).scheme} == {"https"}
        assert model.successor not in (name, "")
        for prices in filter(None, (model.prices, model.prices.long)):
            assert (prices.input is None) == (prices.output is None), name
            if prices.input is not None and prices.output is not None:
                assert 0 < prices.input <= prices.output
                assert (
                    (prices.cached_input or 0.0)
                    < prices.input
                    <= (prices.cache_write or prices.input)
                )
        if (long := model.prices.long) is not None:
            assert (long.input or 0) > (model.prices.input or 0) and (
                model.prices.long_above or 0
            ) >= 100_000, name


def test_a_successor_that_is_known_has_not_ended() -> None:
    followers = {
        model.successor for model in known_models().values() if model.successor in known_models()
    }
    assert len(followers) >= 8
    assert [name for name in followers if known_models()[str(name)].ends_within(SOON, TODAY)] == []


def test_no_name_stands_twice() -> None:
    text = Path(models.__file__).with_name("models.yaml").read_text("utf-8")
    names = [
        known
        for provider in yaml.safe_load(text)
        for name, entry in provider["models"].items()
        for known in (name, *entry.get("also", ()))
    ]
    assert len(names) == len(set(names)) == len(known_models())


# ---------------------------------------------------------------------------------------------------------
# prices


@pytest.mark.parametrize(
    ("urls", "model", "known"),
    [
        ([OPENAI], "gpt-4.1", True),
        ([OPENAI], "gpt-4.1-2025-04-14", True),
        ([OPENAI], "GPT-4.1", False),
        (["http://localhost:8000/v1"], "gpt-4.1", False),
        (["https://api.openai.com.example.org/v1"], "gpt-4.1", False),
        ([OPENAI, "http://localhost:8000/v1"], "gpt-4.1", False),
    ],
)
def test_a_price_is_that_of_the_name_at_the_providers_host(
    urls: list[str], model: str, known: bool
) -> None:
    assert find_prices("openai", Prices(), urls, model) == (
        Prices(2.0, 8.0, 0.5) if known else Prices()
    )


def test_settings_and_another_tier_beat_the_table() -> None:
    assert find_prices("openai", Prices(input=1.0), [OPENAI], "gpt-4.1") == Prices(input=1.0)
    assert find_prices("openai", Prices(), [OPENAI], "gpt-4.1", {"service_tier"}) == Prices()


def test_a_price_is_unknown_after_its_last_day(monkeypatch: pytest.MonkeyPatch) -> None:
    google = ["https://generativelanguage.googleapis.com/v1beta/openai"]
    for day, price in ((date(2026, 12, 31), 0.75), (date(2027, 1, 1), None)):
        monkeypatch.setattr("judgegym.llm.cost.prices.today", lambda day=day: day)
        assert find_prices("openai", Prices(), google, "gemini-3.8-flash").input == price


@pytest.mark.parametrize(
    ("tokens", "cost"), [(272_000, 0.0272 + 0.0005), (272_001, 0.0544002 + 0.00075)]
)
def test_a_long_prompt_has_its_own_prices(tokens: int, cost: float) -> None:
    prices = find_prices("openai", Prices(), [OPENAI], "gpt-6-luna").select_tier(tokens)
    assert prices.price_usage(Usage(tokens, 1000)).cost == pytest.approx(cost)


@pytest.mark.parametrize(
    "model",
    [
        DEFAULT_JUDGE,
    ],
)
def test_a_budget_of_dollars_knows_the_judges_of_today(model: str) -> None:
    settings = JudgeSettings(judge_model_name=model, judge_api_key=SecretStr("key")).chat_settings()
    budget = Budget(usd=1.0)
    budget.check(settings)
    worst = budget.worst_cost(
        {"messages": [{"role": "user", "content": "a" * 1000}], "max_tokens": 1000}, settings
    )
    assert 0.01 < worst < 0.05


@pytest.mark.parametrize("model", [DEFAULT_POLICY, "gpt-5.6", "gpt-6.1-terra"])
def test_a_budget_of_dollars_knows_the_policies_of_today_and_reserves_the_price_of_a_long_prompt(
    model: str,
) -> None:
    prices = PolicySettings(model_name=model).endpoint.prices
    settings = ChatSettings((Endpoint(OPENAI, model),), prices=prices, title="the policy")
    budget = Budget(usd=1.0)
    budget.check(settings)
    short, long = (
        budget.worst_cost(
            {"messages": [{"role": "user", "content": "a" * size}], "max_tokens": 1}, settings
        )
        for size in (1_000, 300_000)
    )
    assert long > 2 * 299 * short / 2


# ---------------------------------------------------------------------------------------------------------
# what ends


@pytest.mark.parametrize(
    ("url", "name", "said"),
    [
        (
            ANTHROPIC,
            RETIRED,
            f"{RETIRED} was retired on 2026-06-15; its successor is claude-sonnet-4-6",
        ),
        (OPENAI, "gpt-4.1", "gpt-4.1 will be retired on 2027-01-14; its successor is gpt-6.1-sol"),
        (ANTHROPIC, DEFAULT_JUDGE, ""),
        (OPENAI, "gpt-5.1", ""),  # in more than 60 days
        ("http://localhost:8000/v1", RETIRED, ""),
        ("https://openrouter.ai/api/v1", RETIRED, ""),
    ],
)
def test_a_model_that_has_ended_is_told_of_once_before_it_is_asked(
    url: str, name: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        ChatClient(ChatSettings((Endpoint(url, name),), url_setting="--env.judge_base_url"))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == bool(said)
    for line in lines:
        assert line.startswith(said) and line.endswith("; set --env.judge_model_name")


def test_the_notices_of_a_run_have_it() -> None:
    notices = {
        name: ChatClient(
            ChatSettings((Endpoint(ANTHROPIC, name),), url_setting="--env.judge_base_url")
        ).notices
        for name in (RETIRED, DEFAULT_JUDGE)
    }
    (notice,) = notices[RETIRED]
    assert notice.startswith(f"{RETIRED} was retired on 2026-06-15")
    assert notice.endswith("; set --env.judge_model_name.")
    assert notices[DEFAULT_JUDGE] == []


async def test_a_404_says_that_the_model_was_retired_and_which_setting_names_it(
    connect: Connect,
) -> None:
    answer = Reply(status=404, body={"error": {"message": f"model: {RETIRED}"}})
    async with ScriptedEndpoint(answer) as endpoint:
        for name, is_told in ((RETIRED, True), (f"anthropic/{RETIRED}", True), ("my-model", False)):
            client = connect(endpoint, model=name, url_setting="--env.judge_base_url")
            with pytest.raises(EndpointError) as raised:
                await client.chat([{"role": "user", "content": "hello"}])
            told = (
                f"{RETIRED} was retired on 2026-06-15; its successor is claude-sonnet-4-6; set "
                "--env.judge_model_name)"
            )
            assert (told in str(raised.value)) == is_told, raised.value
