"""A plan as text of at most 80 columns: a line for each number, and explanatory sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.plan.estimate import Bounds, PlanEstimate
from judgegym.engine.plan.tally import GOLD_JUDGE, Load, Role
from judgegym.engine.terminal.output import UNKNOWN, format_dollars, format_duration
from judgegym.judges.config.budgets import BudgetSettings
from judgegym.llm.cost.budget import Expense
from judgegym.llm.usage import Prices, describe_counting
from judgegym.statistics import percent

WIDTH = 80
_LABEL = 19
_USUAL_SECONDS = (1.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run's load and its cost.

    Attributes:
        estimate: the estimate of the run.
        unit: the noun for its rows: row or group.
        head: the first lines: labels and texts.
        dry: the clients' counts, and the assumed length of replies.
        budget: the run's budget.
        batch_share: the price of a judge's request in a batch, as a share of its live price.
        earlier: the resumed runs.
        notes: further sentences for the reader.
    """

    estimate: PlanEstimate
    unit: str
    head: Sequence[tuple[str, str]]
    dry: DryRun
    budget: BudgetSettings
    batch_share: float
    earlier: Sequence[EarlierRun] = ()
    notes: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the lines to print."""
        lines: list[str] = []
        for label, words in (*self.head, *self._roles(), *self._totals(), *self._assumptions()):
            lines += _wrap(label, words)
        for note in (*self.notes, *self._notes()):
            lines += ["", *textwrap.wrap(note, WIDTH, break_on_hyphens=False)]
        return lines

    @property
    def spent(self) -> Expense:
        """The expense of earlier parts of the run, at current prices."""
        prices: dict[str, Prices] = {}
        for client in self.dry.clients.values():
            for endpoint in client.endpoints:
                prices[endpoint.model] = client.prices
        spent = [earlier.usage.price_usage(prices) for earlier in self.earlier]
        costs = [expense.usd for expense in spent]
        usd = None
        if None not in costs:
            usd = sum(filter(None, costs))
        return Expense(sum(entry.calls for entry in spent), usd)

    def _roles(self) -> Iterator[tuple[str, str]]:
        roles = self.estimate.roles
        if not roles:
            yield "calls", "0"
        for role, load in roles.items():
            title = _role_title(role, roles)
            yield f"{title} calls", _format_range(load, attrgetter("calls"), _count)
            yield "  prompt tokens", _format_range(load, attrgetter("prompt_tokens"), _count)
            yield "  reply tokens", _format_range(load, attrgetter("reply_tokens"), _count)
            if load.usual.cost is None:
                yield "  cost", f"{UNKNOWN}; set {role.price_settings}"
            else:
                yield "  cost", _format_range(load, _dollars, format_dollars)

    def _totals(self) -> Iterator[tuple[str, str]]:
        roles, total = self.estimate.roles, self.estimate.total
        if total.usual.cost is None:
            yield "cost", UNKNOWN
        else:
            yield "cost", _format_range(total, _dollars, format_dollars)
        could_batch = all(
            client.batch is None and client.endpoints[0].api != "decisions"
            for client in self.dry.clients.values()
        )
        if (
            could_batch
            and total.usual.cost is not None
            and any(role.name == "judge" for role in roles)
        ):
            costs = (
                self._batch_share(role) * (load.usual.cost or 0.0) for role, load in roles.items()
            )
            yield "in a batch", format_dollars(sum(costs))
        if roles and self.estimate.rows:
            average = format_total(total.scale(1.0 / self.estimate.rows))
            yield f"a {self.unit}", f"{average} on average"
            yield "least time", self._least_time()
        yield from self._budgets()

    def _batch_share(self, role: Role) -> float:
        if role.name == "judge":
            return self.batch_share
        return 1.0

    def _budgets(self) -> Iterator[tuple[str, str]]:
        loads = (load for role, load in self.estimate.roles.items() if role.name != GOLD_JUDGE)
        total = sum(loads, Bounds())  # the gold judge has a budget of its own
        calls, usd, spent = self.budget.budget_calls, self.budget.budget_usd, self.spent
        if calls is not None:
            comparison = _compare_budget(total, calls - spent.calls, attrgetter("calls"))
            yield "budget", f"{calls:,} calls {comparison}"
        if usd is not None and total.usual.cost is not None:
            comparison = _compare_budget(total, usd - (spent.usd or 0.0), _dollars)
            yield "budget", f"${usd:g} {comparison}"

    def _least_time(self) -> str:
        """Return the shortest duration by the clients' limits, and by usual response times."""
        loads = dict[str, Load]()
        for role, bounds in self.estimate.roles.items():
            loads[role.name] = loads.get(role.name, Load()) + bounds.usual
        seconds, at_once = [0.0], list[float]()
        for title, client in self.dry.clients.items():
            load = loads.get(title.removeprefix("the "), Load())
            limits = (
                (load.calls, client.requests_per_minute),
                (load.prompt_tokens, client.tokens_per_minute),
            )
            seconds += [
                60.0 * (needed / limit - 1.0) for needed, limit in limits if limit is not None
            ]
            at_once.append(max(1.0, load.calls / client.max_concurrency))
        parts: list[str] = []
        if max(seconds) > 0:
            shortest = format_duration(max(seconds))
            parts.append(f"{shortest} by the limits per minute")
        in_turn = sum(at_once)
        replies = [earlier.replies[False] for earlier in self.earlier]
        if calls := sum(history.calls for history in replies):
            mean = sum(history.seconds for history in replies) / calls
            duration, latency = format_duration(in_turn * mean), format_duration(mean)
            parts.append(f"{duration} at {latency} a reply, as so far")
        else:
            times = []
            for reply_seconds in _USUAL_SECONDS:
                duration = format_duration(in_turn * reply_seconds)
                times.append(f"{duration} at {reply_seconds:g} s")
            durations = ", ".join(times)
            parts.append(f"{durations} a reply")
        return "; ".join(parts)

    def _assumptions(self) -> Iterator[tuple[str, str]]:
        if not self.estimate.roles:
            return
        is_asked = {role.is_policy for role in self.estimate.roles}
        nouns = {True: "a completion", False: "a judge's reply"}
        assumptions = []
        for is_policy, tokens in self.dry.reply_tokens.items():
            if tokens and is_policy in is_asked:
                assumptions.append(f"{nouns[is_policy]} of {tokens:,.0f} tokens")
        lengths = ", ".join(assumptions) or "the stand-in's replies"
        yield "assumed", f"{lengths}; --plan=TOKENS for another length"
        if self.dry.cached_share:
            share = percent(self.dry.cached_share, 0)
            yield "in prefix caches", f"{share} of prompts, as so far"
        yield "counted as", describe_counting()

    def _notes(self) -> Iterator[str]:
        rows, counted = self.estimate.rows, self.estimate.counted
        if counted < rows:
            yield (
                f"Counted on {counted:,} of {rows:,} {self.unit}s; the others are assumed to need "
                "as much on average."
            )
        if not all(load.is_exact for load in self.estimate.roles.values()):
            yield (
                "In brackets: the least and the most, which depend on the verdicts: whether votes "
                "agree, whether critique changes a verdict, and whether the judge is sure."
            )
        if self.dry.asks_for_several:
            yield (
                "An endpoint that returns only one completion per request gets a request for each: "
                "more calls and prompt tokens."
            )
        if self.estimate.roles:
            yield (
                "Retries of failed requests and of replies without a verdict are not included. No "
                "model was called."
            )


def format_total(total: Bounds) -> str:
    """Format the calls and dollars of all models together."""
    calls = _format_range(total, attrgetter("calls"), _average)
    if total.usual.cost is None:
        return f"{calls} calls"
    dollars = _format_range(total, _dollars, format_dollars)
    return f"{calls} calls, {dollars}"


def _average(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")


def _role_title(role: Role, roles: Mapping[Role, Bounds]) -> str:
    """Return the title of a role, with its model if another has the same name."""
    models = {
        candidate.model
        for candidate in roles
        if (candidate.name, candidate.part) == (role.name, role.part)
    }
    return " ".join(filter(None, (role.name, role.part, role.model if len(models) > 1 else "")))


def _dollars(load: Load) -> float:
    return load.cost or 0.0


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _format_range(
    load: Bounds, number: Callable[[Load], float], format_number: Callable[[float], str]
) -> str:
    """Format a number, with its bounds if verdicts change it."""
    words, low, high = (format_number(number(value)) for value in (load.usual, load.low, load.high))
    if low == high:
        return words
    return f"{words} ({low} to {high})"


def _compare_budget(total: Bounds, budget: float, number: Callable[[Load], float]) -> str:
    if number(total.high) <= budget:
        return "are enough"
    if number(total.usual) <= budget:
        return "may be enough"
    return "are not enough"


def _wrap(label: str, words: str) -> Iterator[str]:
    """Yield the lines of a number: its label, and its text wrapped beside it."""
    if len(label) > _LABEL:
        yield label
        label = ""
    first, *continuation = textwrap.wrap(words, WIDTH - _LABEL - 2, break_on_hyphens=False)
    yield f"{label:<{_LABEL}}  {first}"
    yield from (f"{'':<{_LABEL}}  {part}" for part in continuation)
