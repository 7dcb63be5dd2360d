"""The settings of a budget, for every command that calls a model.

`--budget_calls` and `--budget_usd` hold for policy and judge together, and for all parts of a run.
A run that ends at its budget prints the command that continues with a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from judgegym.judges.config.fields import operational
from judgegym.llm.cost.budget import Budget, Expense

BUDGETS = ("budget_calls", "budget_usd")
"""The budget settings. They belong to one command: a run's files do not keep them."""


class BudgetSettings(BaseModel, use_attribute_docstrings=True):
    """The limits of what a run may spend."""

    help_group: ClassVar[str] = "run"

    budget_calls: int | None = operational(None, ge=1)
    """Send policy and judge at most this many requests in the whole run, including retries and
    requests before --resume; the run then ends with exit code 3 and prints the command to continue.
    No limit if unset."""
    budget_usd: float | None = operational(None, gt=0)
    """Spend at most this many US dollars on policy and judge in the whole run, including costs
    before --resume: no request is sent that could exceed it; the run then ends with exit code 3 and
    prints the command to continue. It needs the prices of both (common models are in the table of
    list prices) and token limits. No limit if unset."""

    def budget(self) -> Budget | None:
        """Return the budget, shared by all clients of a run; `None` without a limit."""
        if self.budget_calls is None and self.budget_usd is None:
            return None
        return Budget(self.budget_calls, self.budget_usd)

    def enlarge_command(self, words: Sequence[str], spent: Expense, section: str = "") -> list[str]:
        """Return the command's words with a larger budget: twice what was spent.

        If the dollars cannot be counted, the limit is in calls.

        Args:
            words: the command line.
            spent: what the whole run has spent.
            section: the prefix of the settings on the command line.
        """
        calls = self.budget_calls
        usd = self.budget_usd
        remaining = list[str]()
        iterator = iter(words)
        flags = tuple(f"--{section}{name}" for name in BUDGETS)
        for word in iterator:
            name, has_value, _ = word.partition("=")
            if name not in flags:
                remaining.append(word)
            elif not has_value:
                next(iterator, None)
        if (calls is not None and spent.calls >= calls) or (usd is not None and spent.usd is None):
            calls = 2 * spent.calls
        elif usd is not None and spent.usd is not None:
            usd = 2 * max(usd, spent.usd)
        budgets = (
            (None if calls is None else f"{calls}"),
            (None if usd is None or spent.usd is None else f"{usd:g}"),
        )
        return [
            *remaining,
            *(
                f"{flag}={value}"
                for flag, value in zip(flags, budgets, strict=True)
                if value is not None
            ),
        ]
