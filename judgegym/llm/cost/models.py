"""The models that we ask by default, and what is known of the large providers' models (`models.yaml`).

That file is dated: until when a model answers, which one follows it, and its list prices. What it
does not know stays unknown.
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
"""The successor that Anthropic names for Claude Sonnet 4, the judge of the specification. Its later models refuse the
temperature of a judge."""
DEFAULT_POLICY = "gpt-6-luna"
"""The policy and the simulated user: the small chat model that OpenAI names in the place of gpt-4.1-mini, without an
announced end. What it refuses of our default parameters (`temperature`, `max_tokens`) is learned from its answers."""

SOON = timedelta(days=60)
"""A model that ends within this time is told of: it is the notice that the providers give at least."""
_TABLE = Path(__file__).with_name("models.yaml")
_PRICES = ("input", "output", "cached_input", "cache_write")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What is known of a model.

    Attributes:
        provider: whose it is.
        hosts: where its prices hold.
        as_of: when these facts were compared with the provider's pages.
        lifecycle: the provider's page of retirements.
        pricing: its list of prices.
        prices: its list prices.
        until: the last day of these prices; `None` if none is announced.
        retired: the day from which requests fail, or reach another model; `None` if none is
            announced.
        not_before: the earliest such day, where the provider has named that alone.
        successor: the model that the provider recommends in its place.
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
        """Return whether it has been retired on a day, or will be within this time from then."""
        return self.retired is not None and self.retired <= day + time

    def describe_end(self, name: str, day: date) -> str:
        """When the model of this name ends or has ended as of a day, and what follows it, in one clause."""
        verb = "was" if self.retired is not None and self.retired <= day else "will be"
        follows = "" if self.successor is None else f"; its successor is {self.successor}"
        return f"{name} {verb} retired on {self.retired}{follows}"


@lru_cache(maxsize=1)
def known_models() -> Mapping[str, KnownModel]:
    """Return the models of the file, by each name that they are asked for by."""
    import yaml  # late: not every command needs a model

    loader: Any = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # the one in C is five times as fast
    providers: list[dict[str, Any]] = yaml.load(_TABLE.read_text("utf-8"), loader)
    facts = {fact.name for fact in fields(KnownModel)}
    return {
        alias: KnownModel(
            provider=provider["provider"],
            hosts=tuple(provider["hosts"]),
            lifecycle=provider["lifecycle"],
            pricing=provider["pricing"],
            prices=_prices(entry),
            **{name: value for name, value in entry.items() if name in facts},
        )
        for provider in providers
        for name, entry in provider["models"].items()
        for alias in (name, *entry.get("also", ()))
    }


def _prices(entry: Mapping[str, Any]) -> Prices:
    """Return the prices of an entry, with those of long prompts, if they have others."""
    costs = {name: entry[name] for name in _PRICES if name in entry}
    longer = entry.get("long")
    return (
        Prices(**costs)
        if longer is None
        else Prices(**costs, long_above=longer["above"], long=_prices(longer))
    )


def find_model(urls: Sequence[str], name: str) -> KnownModel | None:
    """What is known of a model at its provider's own hosts; `None` of one at another host."""
    model = known_models().get(name)
    hosts = {urlsplit(url).hostname for url in urls}
    return model if model is not None and hosts <= set(model.hosts) else None


def today() -> date:
    """Return the date in UTC, by which models are retired."""
    return datetime.now(timezone.utc).date()


@lru_cache(maxsize=256)
def warn_if_retired(url: str, name: str, setting: str) -> None:
    """Warn once of a model that its provider has retired, or is about to.

    Args:
        url: the base URL where it is asked for.
        name: the name that is asked for.
        setting: the setting that names it, for the message.
    """
    model = find_model([url], name)
    if model is not None and model.ends_within(SOON, today()):
        logger.warning(
            "%s (%s); set %s", model.describe_end(name, today()), model.lifecycle, setting
        )


def explain_retirement(name: str, setting: str) -> str:
    """Why there is no model of this name, for the message about a 404; empty if it has not been retired.

    Routers put the provider before the name, such as `openai/gpt-4`.
    """
    model = known_models().get(name.rpartition("/")[2])
    if model is None or not model.ends_within(timedelta(0), today()):
        return ""
    return f" ({model.describe_end(name, today())}; set {setting})"
