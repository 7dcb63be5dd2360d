"""Token usage and cost, counted separately for each client (policy and judge).

Guarantee: a cost that is not known is `None`, and so is every sum that it is part of; it never reads as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call, as the endpoint counted them, and their price.

    Attributes:
        prompt_tokens: tokens sent.
        completion_tokens: tokens received, reasoning included.
        cost: US dollars; `None` if it is not known, 0.0 if nothing was paid for.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        """The sum of both; its cost is known only if both costs are."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens; `None` where the price is not known."""

    input: float | None = None
    output: float | None = None

    def usage(self, prompt_tokens: int, completion_tokens: int) -> Usage:
        """The usage of one answer with its price.

        The cost is not known without both prices, nor if the endpoint counted no tokens, unless tokens cost nothing.
        """
        if self.input is None or self.output is None:
            return Usage(prompt_tokens, completion_tokens, None)
        if not prompt_tokens + completion_tokens and self.input + self.output:
            return Usage(cost=None)
        cost = (prompt_tokens * self.input + completion_tokens * self.output) / 1_000_000
        return Usage(prompt_tokens, completion_tokens, cost)


@dataclass(slots=True)
class Meter:
    """Running totals of one client.

    Attributes:
        answered: requests that were answered; a request counts once, whatever its retries.
        usage: tokens and cost of all answers that were paid for.
    """

    answered: int = 0
    usage: Usage = field(default_factory=Usage)
