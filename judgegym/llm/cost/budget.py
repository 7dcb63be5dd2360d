"""What a run may spend: a number of requests, an amount of dollars. Several clients may share one budget.

Every completion's request that is sent is a call, each retry of its own. None is what an endpoint
was never sent, because it refused the connection, nor an answer of a ledger, of the judgment cache
or of an identical call in flight.

Before a request leaves, a call and the most that it may cost are reserved; once its answer is
there, the true cost takes the place of the reservation. The most is the price of a prompt of as
many tokens as the request has bytes, which no tokenizer exceeds and nobody has to count (of an
image the most that the published formula gives, see `judgegym.llm.cost.images`), and of `n`
completions of `max_tokens`. An attempt that broke off after it
had left, or was cancelled, counts with the most: it may be billed.

Guarantees: no request is sent beyond a budget of calls, nor one that could cost more than a budget
of dollars has left; only what a provider bills beyond a request's own limit can exceed it. A
request that does not fit waits, in order of arrival, while others are in flight, whose answers may
cost less than was reserved. If it does not fit when none is, it
is refused: it raises `BudgetError`, when all requests in flight have ended and their answers are
recorded. Whoever is told may end everything at once, and nothing that was paid for is lost. Once
one request of a run is refused, all are.
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
"""For what an endpoint's chat template adds beyond the names of fields and roles in the body."""
_ROUNDING = 1e-9


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

    >>> Budget(calls=40).why() is None
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
            within: the budget of which this one is a part: what is spent counts in both.
            owner: whose it is, for messages.
            ends: a run ends when one request is refused, so that all others are refused, too.
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
        """Add what an earlier part of the run has spent, which is not known when the clients are made."""
        self._calls += expense.calls
        self._add(expense.usd)

    @property
    def spent(self) -> Expense:
        """What was spent so far, requests in flight included, as far as they have cost anything yet."""
        return Expense(self._calls, self._usd)

    @property
    def recorded(self) -> Expense:
        """What was spent without the requests in flight."""
        return Expense(self._calls - self._unfinished, self._usd)

    @property
    def limits_dollars(self) -> bool:
        """Whether it, the one that it is a part of, or one of its own parts limits dollars."""
        return any(budget._most_usd is not None for budget in (*self._chain, *self._parts))

    def explain_refusal(self, worst: float = 0.0) -> str | None:
        """Why no request that may cost `worst` dollars may be sent now, in one line; `None` if one may."""
        return next(
            filter(None, (budget._explain_own_refusal(worst) for budget in self._chain)), None
        )

    def _explain_own_refusal(self, worst: float) -> str | None:
        whose, usd, most = self._owner, self._usd, self._most_usd
        if self._end is not None:
            return self._end
        if self._most_calls is not None and self._calls >= self._most_calls:
            return f"the budget{whose} of {format_calls(self._most_calls)} is spent"
        if most is not None and usd is None:
            return (
                f"a budget{whose} of ${most:g} cannot be kept: an endpoint does not count the "
                "tokens of its "
                "answers, so that what they cost is not known; limit the calls instead "
                "(--budget_calls)"
            )
        if (
            most is not None
            and usd is not None
            and usd + self._reserved + worst > most * (1 + _ROUNDING)
        ):
            spent = f"${usd:.4f} for {format_calls(self._calls)}"
            if usd >= most:
                return f"the budget{whose} of ${most:g} is spent: {spent}"
            return (
                f"the budget{whose} of ${most:g} is spent: {spent}, and the next one may cost "
                f"${worst:.4f}"
            )
        return None

    def check(self, settings: ChatSettings) -> None:
        """Check that what a client spends can be known.

        Raises:
            SettingsError: there is a budget of dollars, and the model's tokens have no price; or an
                answer of a judge no limit.
        """
        prices = settings.prices
        if not self.limits_dollars:
            return
        if prices.input is None or prices.output is None:
            raise SettingsError(
                f"budget_usd: the price of {settings.title} is not known; set "
                f"{settings.price_settings}, in US "
                "dollars for a million tokens (0 for an endpoint that costs nothing)"
            )
        if (
            settings.title != "the policy" and not settings.max_tokens
        ):  # a policy's is given with each call
            self.worst_cost({"messages": None, **settings.extra_body}, settings)

    def worst_cost(self, body: Mapping[str, JSON], settings: ChatSettings) -> float:
        """Return the most US dollars that a request may cost; 0 without a budget of dollars.

        Raises:
            SettingsError: its completions have no limit, and a price.
        """
        prices = settings.prices
        if not self.limits_dollars or prices.input is None or prices.output is None:
            return 0.0
        limits = [value for name in _LIMITS if isinstance(value := body.get(name), int)]
        is_chat, n = "messages" in body, body.get("n")
        if is_chat and not any(limits) and prices.output:
            raise SettingsError(
                f"budget_usd: an answer of {settings.title} may be of any length, so that its cost "
                "has no limit; set "
                "the most tokens of an answer (judge_max_tokens, eval_max_tokens, train_max_tokens)"
            )
        completion = max(limits, default=0) * (n if isinstance(n, int) else 1) if is_chat else 0
        texts, images = remove_images(
            wire.dumps(body), settings.endpoints[0].api, settings.endpoints[0].model
        )
        prompt = len(texts) + images + _TEMPLATE_TOKENS
        prices = prices.select_tier(prompt)
        return (prompt * prices.highest_input + completion * (prices.output or 0.0)) / 1e6

    async def reserve(self, worst: float = 0.0, *, urgent: bool = False) -> float:
        """Reserve a call that may cost `worst` dollars; it is unfinished until `finish` or `give_back`.

        Args:
            worst: the most that it may cost.
            urgent: it is a retry, which goes first.

        Returns:
            The seconds that it waited.

        Raises:
            BudgetError: it does not fit, and all requests have ended.
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
        """Wait until a request that may cost `worst` dollars could be sent; raises as `reserve`."""
        await self.reserve(worst, urgent=True)
        self.give_back(worst)

    def give_back(self, worst: float = 0.0) -> None:
        """Take back a request that never left, and finish it."""
        for budget in self._chain:
            budget._calls -= 1
        self.pay(0.0, worst)
        self.finish()

    def pay(self, cost: float | None, worst: float = 0.0) -> None:
        """Put what an answer has cost in the place of what was reserved; `None` if that is not known."""
        for budget in self._chain:
            budget._reserved -= worst
            budget._add(cost)

    def finish(self) -> None:
        """End a request: it failed, or its answer is recorded."""
        for budget in self._chain:
            budget._unfinished -= 1
        whole = self._chain[-1]
        for budget in (whole, *whole._parts):
            budget._settle()

    @property
    def _chain(self) -> tuple[Budget, ...]:
        return (self,) if self.within is None else (self, *self.within._chain)

    def _add(self, cost: float | None) -> None:
        self._usd = None if self._usd is None or cost is None else self._usd + cost

    def _reserve(self, worst: float) -> None:
        for budget in self._chain:
            budget._calls += 1
            budget._unfinished += 1
            budget._reserved += worst

    def _settle(self) -> None:
        """Tell those who wait, in their order, as far as that is certain."""
        while self._waiting:
            worst, decision = self._waiting[0]
            reason = None if decision.done() else self.explain_refusal(worst)
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
"""The part of a client's budget that belongs to whoever it is asked for, such as the owner of a token of a server."""


def format_calls(calls: int) -> str:
    """Return a number of calls, in words."""
    return "1 call" if calls == 1 else f"{calls:,} calls"
