"""The budgets of a server: one in all, and one for each client, by the name of its token.

Guarantees: a judge is sent no request that its caller's budget, or the budget in all, has no room
for; the response has the status `budget_spent` then and no score, and what is judged already stays.
Nobody is refused because the budget of another client is spent. The budgets are those of one
process, from its start to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError

OTHERS = "*"
"""In place of a client's name: each client that is not named."""


class ClientBudget(BaseModel, extra="forbid", allow_inf_nan=False):
    """What may be spent for one client."""

    calls: Annotated[int | None, Field(ge=1)] = None
    usd: Annotated[float | None, Field(gt=0)] = None


class ServerBudgets:
    """All budgets of a process.

    Attributes:
        whole: that of all clients; `None` if nothing is limited.
    """

    def __init__(
        self,
        whole: ClientBudget,
        client_budgets: Mapping[str, ClientBudget],
        clients: Iterable[str],
    ) -> None:
        """Begin with nothing spent.

        Args:
            whole: of all clients together.
            client_budgets: of each client by its name; `*` stands for those that are not named.
            clients: the names of all tokens.

        Raises:
            SettingsError: there is no token of a name.
        """
        names = [*clients]
        if unknown := [name for name in client_budgets if name not in (*names, OTHERS)]:
            expected = ", ".join((*names, OTHERS))
            raise SettingsError(
                f"--client_budgets: there is no token {unknown[0]!r}; expected one of {expected}"
            )
        is_any = whole != ClientBudget() or client_budgets
        self.whole = Budget(whole.calls, whole.usd, ends=False) if is_any else None
        self._limits, self._by_client = client_budgets, dict[str, Budget]()
        self.add_clients(names or [""])

    def add_clients(self, names: Iterable[str]) -> None:
        """Begin the budgets of further clients; those that are known keep what they have spent."""
        for name in names:
            limit = self._limits.get(name, self._limits.get(OTHERS))
            if limit is not None and name not in self._by_client:
                owner = name or "all clients"
                self._by_client[name] = Budget(
                    limit.calls, limit.usd, within=self.whole, owner=owner, ends=False
                )

    def find_budget(self, client: str | None) -> Budget | None:
        """Return the budget of a client's requests, by the name of its token; `None` if only the one in all counts."""
        return self._by_client.get(client or "")
