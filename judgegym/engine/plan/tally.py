"""Loads: requests, tokens and dollars, by model and part of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.llm.types import ChatSettings
from judgegym.llm.usage import Prices

GOLD_JUDGE = "gold judge"


@dataclass(frozen=True, slots=True)
class Load:
    """Requests and tokens of a model.

    Attributes:
        calls: the number of requests.
        prompt_tokens: the tokens of all prompts, by our own count.
        reply_tokens: the assumed tokens of all replies.
        cost: US dollars; `None` if a price is not known.
    """

    calls: float = 0.0
    prompt_tokens: float = 0.0
    reply_tokens: float = 0.0
    cost: float | None = 0.0

    def __add__(self, load: Load) -> Load:
        """Return the sum; its cost is known only if both costs are."""
        cost = None
        if not (self.cost is None or load.cost is None):
            cost = self.cost + load.cost
        prompts = self.prompt_tokens + load.prompt_tokens
        return Load(self.calls + load.calls, prompts, self.reply_tokens + load.reply_tokens, cost)

    def scale(self, factor: float) -> Load:
        """Return the load multiplied by a factor."""
        cost = None
        if self.cost is not None:
            cost = self.cost * factor
        return Load(
            self.calls * factor, self.prompt_tokens * factor, self.reply_tokens * factor, cost
        )


@dataclass(frozen=True, slots=True)
class Role:
    """A model in its role, for one part of a run.

    Attributes:
        name: policy, judge, user or gold judge.
        model: the model's name.
        part: the part of a judge that asks; empty for the judge itself.
        prices: the model's prices.
        price_settings: the command-line settings of the prices.
    """

    name: str
    model: str
    part: str
    prices: Prices
    price_settings: str

    @property
    def is_policy(self) -> bool:
        """Whether its replies are completions, rather than verdicts or a user's messages."""
        return self.name not in ("judge", "user", GOLD_JUDGE)


Tally: TypeAlias = "dict[Role, Load]"
"""The load of each role."""


def add_load(tally: Tally, role: Role, load: Load) -> None:
    """Add a load to a role."""
    tally[role] = tally[role] + load if role in tally else load


def sum_loads(loads: Iterable[Load]) -> Load:
    """Return the sum of loads."""
    return sum(loads, Load())


def price_request(prices: Prices, prompt: float, reply: float, cached_share: float) -> float | None:
    """Return the US dollars for one request.

    Args:
        prices: the model's prices.
        prompt: tokens of the prompt.
        reply: tokens of the reply.
        cached_share: the share of the prompt that is in the endpoint's prefix cache.
    """
    prices = prices.select_tier(round(prompt))
    if prices.input is None or prices.output is None:
        return None
    cached = prices.input if prices.cached_input is None else prices.cached_input
    input_price = prices.input + cached_share * (cached - prices.input)
    return (prompt * input_price + reply * prices.output) / 1e6


def classify_role(settings: ChatSettings, scopes: Iterable[str], parts: frozenset[str]) -> Role:
    """Return the role of a call.

    Args:
        settings: its client's settings.
        scopes: the components within which the call is made.
        parts: the names of the parts of the run's judge.
    """
    names = [*scopes]
    title = settings.title.removeprefix("the ")
    name = GOLD_JUDGE if "gold" in names else title
    part = next((scope for scope in names if scope in parts), "")
    return Role(name, settings.endpoints[0].model, part, settings.prices, settings.price_settings)
