"""The default models, and known facts about the large providers' models (`models.yaml`).

The file is dated. For each model it has the end of service, the successor and the list prices.
Facts that it lacks stay unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judgegym.llm.usage import Prices

logger = logging.getLogger(__name__)

DEFAULT_JUDGE = "claude-sonnet-4-6"
"""The default judge: the successor that Anthropic names for Claude Sonnet 4.

That was the judge of the specification. Its later models refuse a judge's temperature.
"""
DEFAULT_POLICY = "gpt-6-luna"
"""The default policy and simulated user: the small model that OpenAI names to replace gpt-4.1-mini.

Its end is not announced. Which of our default parameters it refuses (`temperature`, `max_tokens`)
is learned from its responses.
"""

SOON = timedelta(days=60)
"""Warn about models that are retired within this time, the shortest notice of the providers."""
_TABLE = Path(__file__).with_name("models.yaml")
_PRICES = ("input", "output", "cached_input", "cache_write")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Known facts about a model.

    Attributes:
        provider: the provider's name.
        hosts: the hosts with these prices.
        as_of: the date of the comparison with the provider's pages.
        lifecycle: the provider's page of retirements.
        pricing: its list of prices.
        prices: its list prices.
        until: the last day of these prices; `None` if none is announced.
        retired: the day from which requests fail, or reach another model; `None` if none is
            announced.
        not_before: the earliest such day, if the provider has announced no more.
        successor: the replacement that the provider recommends.
    """

    provider: str
    hosts: tuple[str, ...]
    as_of: date
    lifecycle: str
    pricing: str
    prices: Prices = Prices()
    until: date | None = None
    retired: date | None = None
    not_before: date | None = None
    successor: str | None = None

    def ends_within(self, time: timedelta, day: date) -> bool:
        """Return whether the model is retired on a day, or within this time after it."""
        return self.retired is not None and self.retired <= day + time

    def describe_end(self, name: str, day: date) -> str:
        """Return a clause that says when the model ends or ended, and which model follows it."""
        verb = "will be"
        if self.retired is not None and self.retired <= day:
            verb = "was"
        follows = ""
        if self.successor is not None:
            follows = f"; its successor is {self.successor}"
        return f"{name} {verb} retired on {self.retired}{follows}"


@lru_cache(maxsize=1)
def known_models() -> Mapping[str, KnownModel]:
    """Return the models of the file by name, including their other names."""
    import yaml  # late: not every command needs a model

    loader: Any = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # the one in C is five times as fast
    providers: list[dict[str, Any]] = yaml.load(_TABLE.read_text("utf-8"), loader)
    facts = {fact.name for fact in fields(KnownModel)}
    models: dict[str, KnownModel] = {}
    for provider in providers:
        for name, entry in provider["models"].items():
            model = KnownModel(
                provider=provider["provider"],
                hosts=tuple(provider["hosts"]),
                lifecycle=provider["lifecycle"],
                pricing=provider["pricing"],
                prices=_prices(entry),
                **{fact: value for fact, value in entry.items() if fact in facts},
            )
            models[name] = model
            for alias in entry.get("also", ()):
                models[alias] = model
    return models


def _prices(entry: Mapping[str, Any]) -> Prices:
    """Return the prices of an entry, with those of long prompts if they differ."""
    costs = {name: entry[name] for name in _PRICES if name in entry}
    longer = entry.get("long")
    if longer is None:
        return Prices(**costs)
    return Prices(**costs, long_above=longer["above"], long=_prices(longer))


def find_model(urls: Sequence[str], name: str) -> KnownModel | None:
    """Return the known facts of a model at its provider's own hosts; `None` for other hosts."""
    model = known_models().get(name)
    hosts = {urlsplit(url).hostname for url in urls}
    if model is not None and hosts <= set(model.hosts):
        return model
    return None


def today() -> date:
    """Return the date in UTC, which decides whether a model is retired."""
    return datetime.now(timezone.utc).date()


def describe_retirement(url: str, name: str, setting: str) -> str | None:
    """Describe the retirement of a model that has ended or ends soon; `None` for other models.

    Args:
        url: the endpoint's base URL.
        name: the model's name there.
        setting: the setting that names it, for the message.
    """
    model = find_model([url], name)
    if model is None or not model.ends_within(SOON, today()):
        return None
    end = model.describe_end(name, today())
    return f"{end} ({model.lifecycle}); set {setting}"


@lru_cache(maxsize=256)
def warn_if_retired(url: str, name: str, setting: str) -> None:
    """Warn once about a model that its provider has retired or is about to retire.

    The arguments are those of `describe_retirement`.
    """
    notice = describe_retirement(url, name, setting)
    if notice is not None:
        logger.warning("%s", notice)


def explain_retirement(name: str, setting: str) -> str:
    """Explain a 404 by the model's retirement, for its message; empty if it is not retired.

    Routers prefix the name with the provider, such as `openai/gpt-4`.
    """
    model = known_models().get(name.rpartition("/")[2])
    if model is None or not model.ends_within(timedelta(0), today()):
        return ""
    end = model.describe_end(name, today())
    return f" ({end}; set {setting})"
