"""What the earlier parts of a run have spent, by its ledger of calls.

A request counts whether or not it was answered: with the attempts of answers and of failures, and with those that
have left if it was in flight when the run stopped. Tokens are priced with the prices of now, so that a price that was
wrong, or not set, can be mended; those of a model without a price now cost what the ledger says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judgegym.llm.limits.budget import Expense
from judgegym.llm.usage import Prices, Usage

_NO_USAGE: Mapping[str, Any] = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0, "cached_prompt_tokens": 0}


@dataclass(slots=True)
class RunUsage:
    """Requests and tokens so far.

    Attributes:
        requests: those that were sent, retries included.
        usage: of each model, the tokens of all answers that were paid for, with the cost that was recorded.
    """

    requests: int = 0
    usage: dict[str, Usage] = field(default_factory=dict)

    def note_answer(self, call: Mapping[str, Any]) -> None:
        """Add the answer of a line; one that no request was sent for cost nothing."""
        if call["id"] is not None:
            answer = call["answer"]
            self._add(call["model"], answer["attempts"], answer["usage"])

    def note_failure(self, line: Mapping[str, Any]) -> None:
        """Add the failed request of a line; those of older runs do not say what it cost."""
        self._add(line.get("model", ""), line.get("attempts", 1), line.get("usage", _NO_USAGE))

    def note_lost(self, requests: int) -> None:
        """Add requests that were in flight when the run stopped."""
        self.requests += requests

    def priced(self, prices: Mapping[str, Prices]) -> Expense:
        """All of it as a part of a budget.

        Args:
            prices: of each model, the prices of now.
        """
        cost: float | None = 0.0
        for model, usage in self.usage.items():
            now = prices.get(model, Prices())
            known = now.input is not None and now.output is not None
            counted = usage.prompt_tokens + usage.completion_tokens > 0
            tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_prompt_tokens)
            part = now.usage(*tokens).cost if known and counted else usage.cost
            cost = None if cost is None or part is None else cost + part
        return Expense(self.requests, cost)

    def _add(self, model: str, attempts: int, usage: Mapping[str, Any]) -> None:
        self.requests += attempts
        paid = Usage(
            usage["prompt_tokens"], usage["completion_tokens"], usage["cost"], usage.get("cached_prompt_tokens", 0)
        )
        if paid != Usage():
            self.usage[model] = self.usage.get(model, Usage()) + paid
