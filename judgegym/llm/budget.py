"""What a run may spend: a number of requests, an amount of dollars. Several clients may share one budget.

Every completion's request that is sent is a call, each retry of its own. None is what an endpoint was never sent,
because it refused the connection, nor an answer of a ledger, of the judgment cache or of an identical call in flight.

Guarantees: no request is sent beyond a budget of calls; none is sent once the answers have cost a budget of dollars, so
that those in flight at that moment are all that can go beyond it. A refused call raises `BudgetError`, and not before
all requests in flight have ended and their answers are recorded: whoever is told may end everything at once, and
nothing that was paid for is lost. Whoever is told once is told for good.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.types import ChatSettings


@dataclass(frozen=True, slots=True)
class Expense:
    """What was spent.

    Attributes:
        calls: requests that were sent.
        usd: US dollars for their answers; `None` if that is not known.
    """

    calls: int = 0
    usd: float | None = 0.0


class Budget:
    """A budget, and what of it is spent. All clients that share it belong to one event loop.

    >>> Budget(calls=40, before=Expense(40, 0.2)).why
    'the budget of 40 calls is spent'
    """

    def __init__(self, calls: int | None = None, usd: float | None = None, *, before: Expense = Expense()) -> None:
        """Begin with what an earlier part of the run has spent.

        Args:
            calls: the most requests, those before included; `None` for no limit.
            usd: the most US dollars, those before included; `None` for no limit.
            before: what was spent.
        """
        self._most_calls, self._most_usd = calls, usd
        self._calls, self._usd = before.calls, before.usd
        self._unfinished = 0
        self._changed = asyncio.Event()

    def begin_after(self, before: Expense) -> None:
        """Add what an earlier part of the run has spent, which is not known when the clients are made."""
        self._calls += before.calls
        self.pay(before.usd)

    @property
    def spent(self) -> Expense:
        """What was spent so far, requests in flight included, as far as they have cost anything yet."""
        return Expense(self._calls, self._usd)

    @property
    def why(self) -> str | None:
        """Why no request may be sent now, in one line; `None` if one may."""
        if self._most_calls is not None and self._calls >= self._most_calls:
            return f"the budget of {_counted(self._most_calls)} is spent"
        if self._most_usd is None:
            return None
        if self._usd is None:
            return (
                f"a budget of ${self._most_usd:g} cannot be kept: an endpoint does not count the tokens of its "
                "answers, so that what they cost is not known; limit the calls instead (--budget_calls)"
            )
        if self._usd >= self._most_usd:
            return f"the budget of ${self._most_usd:g} is spent: ${self._usd:.4f} for {_counted(self._calls)}"
        return None

    def check(self, settings: ChatSettings) -> None:
        """Check that what a client spends can be known.

        Raises:
            SettingsError: there is a budget of dollars, and the model's tokens have no price.
        """
        prices = settings.prices
        if self._most_usd is not None and (prices.input is None or prices.output is None):
            price = f"--{settings.price_settings}"
            raise SettingsError(
                f"budget_usd: the price of {settings.title} is not known; set {price}input and {price}output, in US "
                "dollars for a million tokens (0 for an endpoint that costs nothing)"
            )

    async def ready(self) -> float:
        """Wait until a request may be sent, or it is certain that none ever may be.

        Returns:
            The seconds that it took.

        Raises:
            BudgetSpent: the budget is spent, and all requests have ended.
        """
        if self.why is None:
            return 0.0
        began = time.monotonic()
        while (why := self.why) is not None:
            if not self._unfinished:
                raise BudgetError(why)
            self._changed.clear()
            await self._changed.wait()
        return time.monotonic() - began

    def take(self) -> bool:
        """Count a request that is sent now, unless the budget is spent. It is unfinished until `finish`."""
        if self.why is not None:
            return False
        self._calls += 1
        self._unfinished += 1
        return True

    def give_back(self) -> None:
        """Take back a request that never left, and finish it."""
        self._calls -= 1
        self.finish()

    def pay(self, cost: float | None) -> None:
        """Add what an answer has cost; `None` if that is not known."""
        self._usd = None if self._usd is None or cost is None else self._usd + cost

    def finish(self) -> None:
        """End a request: it failed, or its answer is recorded."""
        self._unfinished -= 1
        if not self._unfinished or self.why is None:
            self._changed.set()


def _counted(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls:,} calls"
