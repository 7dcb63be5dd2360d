"""Budgets: a limit on a run's requests and dollars, which several clients may share.

Each request for a completion counts as a call, each retry again. Not counted are requests that were
not sent because the connection was refused, and responses from a ledger, from the judgment cache or
from an identical call in flight.

Before a request is sent, a call and its highest possible cost are reserved; with the response, the
actual cost replaces the reservation. The highest cost is that of a prompt with one token per byte,
which no tokenizer exceeds (for an image, the highest count of the published formula, see
`judgegym.llm.cost.images`), plus `n` completions of `max_tokens`. An attempt that was sent and then
broke off or was cancelled costs the whole reservation: it may be billed.

Guarantees: no request is sent beyond a budget of calls, nor one that could cost more than is left
of a budget of dollars; only a bill beyond a request's own limit can exceed it. A request that does
not fit waits, in order of arrival, while others are in flight, which may cost less than was
reserved. If it still does not fit when none is in flight, it raises `BudgetError`, after all
responses are recorded. The caller may then stop at once, and nothing that was paid for is lost.
Once one request of a run is refused, all further requests are.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from judgegym.llm import wire
from judgegym.llm.at_once import blocked
from judgegym.llm.cost.images import remove_images
from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.types import ChatSettings
from judgegym.llm.wire import JSON

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TEMPLATE_TOKENS = 64
"""Allowance for what an endpoint's chat template adds to the names and roles in the body."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Expense:
    """Requests and dollars spent.

    Attributes:
        calls: the number of requests sent.
        usd: their cost in US dollars; `None` if it is not known.
    """

    calls: int = 0
    usd: float | None = 0.0


class Budget:
    """A budget and what is spent of it. All clients that share it use one event loop.

    >>> Budget(calls=40).explain_refusal() is None
    True
    """

    def __init__(
        self,
        calls: int | None = None,
        usd: float | None = None,
        *,
        within: Budget | None = None,
        owner: str = "",
        ends: bool = True,
    ) -> None:
        """Begin with nothing spent.

        Args:
            calls: the most requests; `None` for no limit.
            usd: the most US dollars; `None` for no limit.
            within: the parent budget: expenses count in both.
            owner: the owner's name, for messages.
            ends: whether a refused request ends the run, so that all further ones are refused, too.
        """
        self._most_calls, self._most_usd = calls, usd
        self._calls, self._usd = 0, cast("float | None", 0.0)
        self.within, self._owner, self._ends = within, f" for {owner}" if owner else "", ends
        self._reserved, self._unfinished = 0.0, 0
        self._end: str | None = None
        self._waiting: deque[tuple[float, asyncio.Future[str | None]]] = deque()
        self._parts: list[Budget] = []
        if within is not None:
            within._parts.append(self)

    def begin_after(self, expense: Expense) -> None:
        """Add the expense of an earlier part of the run.

        It is not known yet when the clients are made.
        """
        self._calls += expense.calls
        self._add(expense.usd)

    @property
    def spent(self) -> Expense:
        """The expense so far, with what the requests in flight have cost."""
        return Expense(self._calls, self._usd)

    @property
    def recorded(self) -> Expense:
        """The expense so far, without requests in flight."""
        return Expense(self._calls - self._unfinished, self._usd)

    @property
    def limits_dollars(self) -> bool:
        """Whether this budget, a parent or a part of it limits dollars."""
        return any(budget._most_usd is not None for budget in (*self._chain, *self._parts))

    def explain_refusal(self, worst: float = 0.0) -> str | None:
        """Return why a request that may cost `worst` dollars is refused now; `None` if it fits."""
        return next(
            filter(None, (budget._explain_own_refusal(worst) for budget in self._chain)), None
        )

    def _explain_own_refusal(self, worst: float) -> str | None:
        whose, usd, most = self._owner, self._usd, self._most_usd
        if self._end is not None:
            return self._end
        if self._most_calls is not None and self._calls >= self._most_calls:
            calls = format_calls(self._most_calls)
            return f"the budget{whose} of {calls} is spent"
        if most is not None and usd is None:
            return (
                f"the budget{whose} of ${most:g} cannot be kept: an endpoint reports no token "
                "counts, so that the cost of its responses is not known; limit the number of calls "
                "instead (--budget_calls)"
            )
        if (
            most is not None
            and usd is not None
            and usd + self._reserved + worst > most * (1 + _ROUNDING)
        ):
            calls = format_calls(self._calls)
            spent = f"${usd:.4f} for {calls}"
            if usd >= most:
                return f"the budget{whose} of ${most:g} is spent: {spent}"
            return (
                f"the budget{whose} of ${most:g} is spent: {spent}, and the next call may cost "
                f"${worst:.4f}"
            )
        return None

    def check(self, settings: ChatSettings) -> None:
        """Check that the cost of a client's requests can be known.

        Raises:
            SettingsError: the budget limits dollars, and the model has no price, or a judge's
                completions no length limit.
        """
        prices = settings.prices
        if not self.limits_dollars:
            return
        if prices.input is None or prices.output is None:
            raise SettingsError(
                f"budget_usd: the price of {settings.title} is not known; set "
                f"{settings.price_settings}, in US dollars per million tokens (0 for an endpoint "
                "that costs nothing)"
            )
        if settings.title != "the policy" and not settings.max_tokens:  # a policy's: in each call
            self.worst_cost({"messages": None, **settings.extra_body}, settings)

    def worst_cost(self, body: Mapping[str, JSON], settings: ChatSettings) -> float:
        """Return the most US dollars that a request may cost; 0 without a budget of dollars.

        Raises:
            SettingsError: its completions have a price but no length limit.
        """
        prices = settings.prices
        if not self.limits_dollars or prices.input is None or prices.output is None:
            return 0.0
        limits = [value for name in _LIMITS if isinstance(value := body.get(name), int)]
        is_chat = "messages" in body and "questions" not in body
        if is_chat and not any(limits) and prices.output:
            raise SettingsError(
                f"budget_usd: a completion of {settings.title} may be of any length, so that its "
                "cost has no limit; limit its tokens (judge_max_tokens, eval_max_tokens, "
                "train_max_tokens)"
            )
        completion = 0
        if is_chat:
            n = body.get("n")
            completion = max(limits, default=0)
            completion *= n if isinstance(n, int) else 1
        texts, images = remove_images(
            wire.dumps(body), settings.endpoints[0].api, settings.endpoints[0].model
        )
        prompt = len(texts) + images + _TEMPLATE_TOKENS
        prices = prices.select_tier(prompt)
        return (prompt * prices.highest_input + completion * (prices.output or 0.0)) / 1e6

    async def reserve(self, worst: float = 0.0, *, urgent: bool = False) -> float:
        """Reserve a call that may cost `worst` dollars, until `finish` or `give_back` ends it.

        Args:
            worst: its highest possible cost.
            urgent: whether it is a retry, which goes first.

        Returns:
            The seconds waited.

        Raises:
            BudgetError: it does not fit, and no request is in flight.
        """
        if (urgent or not self._waiting) and self.explain_refusal(worst) is None:
            self._reserve(worst)
            return 0.0
        began, decision = time.monotonic(), asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if urgent else self._waiting.append)((worst, decision))
        self._settle()
        try:
            with blocked():
                refusal = await decision
        except asyncio.CancelledError:
            if decision.done() and not decision.cancelled() and decision.result() is None:
                self.give_back(worst)  # it was reserved while this task was being cancelled
            raise
        if refusal is not None:
            raise BudgetError(refusal)
        return time.monotonic() - began

    async def wait_for_room(self, worst: float = 0.0) -> None:
        """Wait until a request that may cost `worst` dollars fits; raises as `reserve` does."""
        await self.reserve(worst, urgent=True)
        self.give_back(worst)

    def give_back(self, worst: float = 0.0) -> None:
        """Give back the reservation of a request that was never sent."""
        for budget in self._chain:
            budget._calls -= 1
        self.pay(0.0, worst)
        self.finish()

    def pay(self, cost: float | None, worst: float = 0.0) -> None:
        """Replace a reservation by the actual cost; `None` if it is not known."""
        for budget in self._chain:
            budget._reserved -= worst
            budget._add(cost)

    def finish(self) -> None:
        """End a request: it failed, or its response is recorded."""
        for budget in self._chain:
            budget._unfinished -= 1
        whole = self._chain[-1]
        for budget in (whole, *whole._parts):
            budget._settle()

    @property
    def _chain(self) -> tuple[Budget, ...]:
        if self.within is None:
            return (self,)
        return (self, *self.within._chain)

    def _add(self, cost: float | None) -> None:
        self._usd = None if self._usd is None or cost is None else self._usd + cost

    def _reserve(self, worst: float) -> None:
        for budget in self._chain:
            budget._calls += 1
            budget._unfinished += 1
            budget._reserved += worst

    def _settle(self) -> None:
        """Admit or refuse the waiting requests in their order, as far as that is certain."""
        while self._waiting:
            worst, decision = self._waiting[0]
            reason = None
            if not decision.done():
                reason = self.explain_refusal(worst)
            if reason is not None and any(
                budget._unfinished
                for budget in self._chain
                if budget._explain_own_refusal(worst) is not None
            ):
                return
            self._waiting.popleft()
            if decision.done():  # cancelled
                continue
            if reason is None:
                self._reserve(worst)
            elif self._ends:
                self._end = reason
            decision.set_result(reason)


CALLER_BUDGET: ContextVar[Budget | None] = ContextVar("budget_of_caller", default=None)
"""The caller's part of a client's budget, such as that of the owner of a server's token."""


def format_calls(calls: int) -> str:
    """Format a number of calls, such as "1 call" or "40 calls"."""
    if calls == 1:
        return "1 call"
    return f"{calls:,} calls"
