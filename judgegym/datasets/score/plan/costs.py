"""What tokens cost, from the least to the most."""

from __future__ import annotations

from judgegym.datasets.score.plan.numbers import Range
from judgegym.llm.usage import Prices


def cost_of(prices: Prices, prompts: Range, completions: Range) -> Range | None:
    """From all prompts in the prefix cache and the shortest answers to none there and the longest."""
    if prices.input is None or prices.output is None:
        return None
    cached = prices.input if prices.cached_input is None else min(prices.input, prices.cached_input)
    low = prompts.low * cached + completions.low * prices.output
    if prompts.high is None or completions.high is None:
        is_free = not prices.input + prices.output
        return Range(0.0, 0.0) if is_free else Range(low / 1e6, None)
    return Range(low / 1e6, (prompts.high * prices.input + completions.high * prices.output) / 1e6)
