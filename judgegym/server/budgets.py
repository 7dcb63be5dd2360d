"""Budgets of a server: one for all clients together, and one for each client by its token's name.

Guarantees: no request is sent to a judge if it would exceed the client's budget or the total
budget; the response then has the status `budget_spent` and no score, and earlier judgments stay. No
client is refused because another client's budget is spent. Budgets are kept per process, from its
start to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError

OTHERS = "*"
"""Stands for every client that has no limit of its own."""


class ClientBudget(BaseModel, extra="forbid", allow_inf_nan=False):
    """Limits of what may be spent for one client."""

    calls: Annotated[int | None, Field(ge=1)] = None
    usd: Annotated[float | None, Field(gt=0)] = None


class ServerBudgets:
    """All budgets of a process.

    Attributes:
        whole: the budget of all clients together; `None` if nothing is limited.
    """

    def __init__(
        self,
        whole: ClientBudget,
        client_budgets: Mapping[str, ClientBudget],
        clients: Iterable[str],
    ) -> None:
        """Start with nothing spent.

        Args:
            whole: limits of all clients together.
            client_budgets: limits by client name; `*` stands for all other clients.
            clients: the names of all tokens.

        Raises:
            SettingsError: a limit names a client that has no token.
        """
        names = [*clients]
        if unknown := [name for name in client_budgets if name not in (*names, OTHERS)]:
            expected = ", ".join((*names, OTHERS))
            raise SettingsError(
                f"--client_budgets: there is no token {unknown[0]!r}; expected one of {expected}"
            )
        is_any = whole != ClientBudget() or client_budgets
        self.whole = Budget(whole.calls, whole.usd, ends=False) if is_any else None
        self._limits = client_budgets
        self._by_client = dict[str, Budget]()
        self.add_clients(names or [""])

    def add_clients(self, names: Iterable[str]) -> None:
        """Open the budgets of further clients; existing clients keep what they have spent."""
        for name in names:
            limit = self._limits.get(name, self._limits.get(OTHERS))
            if limit is not None and name not in self._by_client:
                owner = name or "all clients"
                self._by_client[name] = Budget(
                    limit.calls, limit.usd, within=self.whole, owner=owner, ends=False
                )

    def find_budget(self, client: str | None) -> Budget | None:
        """Return the budget of a client, by token name; `None` if only the total counts."""
        return self._by_client.get(client or "")
