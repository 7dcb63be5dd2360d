"""Token usage and cost, counted separately for each client (policy and judge)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call, as the endpoint counted them, and their price.

    Attributes:
        prompt_tokens: tokens sent.
        completion_tokens: tokens received, reasoning included.
        cost: US dollars; 0.0 where no prices are configured.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0

    def usage(self, prompt_tokens: int, completion_tokens: int) -> Usage:
        """The usage of one answer with its price."""
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
