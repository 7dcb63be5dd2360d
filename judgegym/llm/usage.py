"""Token usage and cost of each client, and approximate token counts.

Guarantee: an unknown cost is `None`, and so is every sum with it; it never becomes 0. The
approximate token counts are for rate limits and for comparing lengths, never for billing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call, as the endpoint counted them, and their price.

    Attributes:
        prompt_tokens: tokens sent.
        completion_tokens: tokens received, reasoning included.
        cost: US dollars; `None` if it is not known, 0.0 if nothing was paid for.
        cached_prompt_tokens: prompt tokens that the endpoint read from its prefix cache; 0 if it
            does not say.
        cache_write_tokens: prompt tokens that it wrote to that cache, where writing has a price.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    cached_prompt_tokens: int = 0
    cache_write_tokens: int = 0

    def replace_cost(self, cost: float | None) -> Usage:
        """Return the same tokens with this cost."""
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            cost,
            self.cached_prompt_tokens,
            self.cache_write_tokens,
        )

    def __add__(self, usage: Usage) -> Usage:
        """Return the sum; its cost is known only if both costs are."""
        return Usage(
            self.prompt_tokens + usage.prompt_tokens,
            self.completion_tokens + usage.completion_tokens,
            None if self.cost is None or usage.cost is None else self.cost + usage.cost,
            self.cached_prompt_tokens + usage.cached_prompt_tokens,
            self.cache_write_tokens + usage.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in US dollars for a million tokens; `None` where the price is not known.

    Without their own prices, prompt tokens read from or written to the endpoint's prefix cache cost
    as much as any other: the cost is then an upper bound.

    Attributes:
        long_above: prompts with more tokens have the prices `long`; `None` if all have the same.
        long: those prices.
    """

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    long_above: int | None = None
    long: Prices | None = None

    def select_tier(self, tokens: int) -> Prices:
        """Return the prices of a request whose prompt has this many tokens."""
        if self.long is None or tokens <= (self.long_above or 0):
            return self
        return self.long

    def scale(self, share: float) -> Prices:
        """Return the prices multiplied by a factor."""
        names = ("input", "output", "cached_input", "cache_write")
        costs = {name: cost * share for name in names if (cost := getattr(self, name)) is not None}
        return Prices(
            **costs,
            long_above=self.long_above,
            long=None if self.long is None else self.long.scale(share),
        )

    @property
    def highest_input(self) -> float:
        """The highest price of a prompt token, cached or not; 0 without a price."""
        return max(filter(None, (self.input, self.cached_input, self.cache_write)), default=0.0)

    def price_usage(self, usage: Usage) -> Usage:
        """Return the usage of one response with its price, replacing its cost.

        The cost is unknown without the prices of prompt and completion, or if the endpoint counted
        no tokens, unless tokens are free.
        """
        if self.input is None or self.output is None:
            return usage.replace_cost(None)
        if not usage.prompt_tokens + usage.completion_tokens and self.input + self.output:
            return Usage(cost=None)
        cost = usage.prompt_tokens * self.input + usage.completion_tokens * self.output
        if self.cached_input is not None:
            cost -= usage.cached_prompt_tokens * (self.input - self.cached_input)
        if self.cache_write is not None:
            cost += usage.cache_write_tokens * (self.cache_write - self.input)
        return usage.replace_cost(cost / 1_000_000)


@dataclass(slots=True)
class Meter:
    """Running totals of one client.

    Attributes:
        answered: the number of answered requests, without retries.
        usage: tokens and cost of all paid responses.
        on_queued: called with the seconds that a call waited for its first request.
        on_attempt_failed: called for each failed request, with `429` or the value of a
            `FailureKind`.
    """

    answered: int = 0
    usage: Usage = field(default_factory=Usage)
    on_queued: Callable[[float], None] = lambda seconds: None
    on_attempt_failed: Callable[[str], None] = lambda cause: None


logger = logging.getLogger(__name__)

_ENCODING = "cl100k_base"
_BYTES_PER_TOKEN = 4
COUNTED = 100_000
"""Longest text whose tokens are counted, in characters; longer texts are extrapolated."""


def count_tokens(text: str) -> int:
    """Count the tokens of `text` by tiktoken's `cl100k_base`, or else a quarter of its UTF-8 bytes.

    The table is downloaded at first use. If that fails, the process uses the estimate and logs it
    once. For English the two agree within a few tens of per cent, and ratios of lengths hardly
    differ.
    """
    encoding = _encoding()
    if encoding is None:
        return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
    counted = len(encoding.encode_ordinary(text[:COUNTED]))
    if len(text) <= COUNTED:
        return counted
    return round(counted * len(text) / COUNTED)


count_once = lru_cache(maxsize=256)(count_tokens)
"""`count_tokens` with a cache, for texts that many prompts share, such as the system prompt."""


def describe_counting() -> str:
    """Describe how `count_tokens` counts in this process."""
    if _encoding() is None:
        return f"UTF-8 bytes / {_BYTES_PER_TOKEN}"
    return f"tiktoken's {_ENCODING}"


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding | None:
    try:
        import tiktoken  # late: only rate budgets and style control count tokens

        return tiktoken.get_encoding(_ENCODING)
    except Exception as error:  # noqa: BLE001  # not installed, or the download failed
        logger.warning(
            "tiktoken's table is not available (%s): token counts are UTF-8 bytes / 4",
            type(error).__name__,
        )
        return None
