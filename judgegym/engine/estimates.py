"""Numbers that a plan cannot know exactly (`--plan`): from how much to how much, in words, and the lines of a plan.

A plan is text of at most 80 columns: a line for each number, and sentences for what the numbers leave out.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.engine.terminal.output import UNKNOWN, dollars
from judgegym.llm.usage import Prices, Usage

WIDTH = 80
LABEL = 19


@dataclass(frozen=True, slots=True)
class Range:
    """From how much to how much something may be.

    Attributes:
        low: the least.
        high: the most; `None` if there is no limit, or it is not known.
    """

    low: float
    high: float | None

    @property
    def is_exact(self) -> bool:
        """Whether both are the same."""
        return self.low == self.high

    def __add__(self, other: Range) -> Range:
        """The sum of both."""
        high = None if self.high is None or other.high is None else self.high + other.high
        return Range(self.low + other.low, high)

    def times(self, factor: float) -> Range:
        """So many times as much."""
        return Range(self.low * factor, None if self.high is None else self.high * factor)


def cost_of(prices: Prices, prompts: Range, completions: Range) -> Range | None:
    """From all prompts in the prefix cache and the shortest answers to none there and the longest."""
    if prices.input is None or prices.output is None:
        return None
    cached = prices.input if prices.cached_input is None else min(prices.input, prices.cached_input)
    low = prompts.low * cached + completions.low * prices.output
    if prompts.high is None or completions.high is None:
        is_free = not prices.input + prices.output
        return Range(0.0, 0.0) if is_free else Range(low / 1e6, None)
    return Range(low / 1e6, (prompts.high * prices.input + completions.high * prices.output) / 1e6)


def sum_costs(costs: Iterable[Range | None]) -> Range | None:
    """The sum of costs; `None` if one is not known."""
    total = Range(0.0, 0.0)
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """What a model is asked, and US dollars for it, if its prices are known."""

    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None

    @classmethod
    def of(cls, prices: Prices, calls: Range, prompts: Range, completions: Range) -> ModelPlan:
        """The plan of a model with these prices."""
        return cls(calls, prompts, completions, cost_of(prices, prompts, completions))

    def __add__(self, other: ModelPlan) -> ModelPlan:
        """Both together."""
        return ModelPlan(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            sum_costs((self.cost, other.cost)),
        )


@dataclass(slots=True)
class EarlierCalls:
    """What the ledger of a run that a plan is to resume holds, of calls to policies (`True`) and to judges (`False`).

    Attributes:
        judged: responses that are judged already, and are kept.
        held: answers to calls for the other rows, which are not asked for again.
        paid: calls whose answers were paid for.
        choices: the answers that they brought.
        tokens: of these answers.
        seconds: that those of judges took, one after the other.
        usage: of all.
    """

    judged: int = 0
    held: Counter[bool] = field(default_factory=Counter)
    paid: Counter[bool] = field(default_factory=Counter)
    choices: Counter[bool] = field(default_factory=Counter)
    tokens: Counter[bool] = field(default_factory=Counter)
    seconds: float = 0.0
    usage: Usage = Usage()

    def __add__(self, other: EarlierCalls) -> EarlierCalls:
        """Both together."""
        return EarlierCalls(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @classmethod
    def of_run(cls, run: Path, is_left: Callable[[str], bool], *, judged: int = 0) -> EarlierCalls:
        """Read the ledger of a run's directory, which may not exist; `is_left` says which rows are to be run.

        Raises:
            RunDirectoryError: its ledger cannot be read.
        """
        found = cls(judged)
        for call in read_calls(run):
            of, answer = call.is_of_policy, call.answer
            found.held[of] += call.has_verdict and is_left(call.row)
            if answer.attempts:
                found.paid[of] += 1
                found.choices[of] += len(answer.choices)
                found.tokens[of] += answer.usage.completion_tokens
                found.seconds += 0.0 if of else answer.latency_s
                found.usage += answer.usage
        return found


def enough(needed: Range, budget: float) -> str:
    """Whether a budget is enough for what is needed."""
    if needed.high is not None and needed.high <= budget:
        return "are enough"
    return "may be enough" if needed.low <= budget else "are not enough"


def plan_line(label: str, words: str) -> Iterator[str]:
    """The lines of a number: its label, and words that are wrapped beside it."""
    first, *rest = textwrap.wrap(words, WIDTH - LABEL - 2, break_on_hyphens=False)
    yield f"{label:<{LABEL}}  {first}"
    yield from (f"{'':<{LABEL}}  {part}" for part in rest)


def at_most(tokens: Range, setting: str) -> str:
    """The most tokens, or the setting that would limit them."""
    return f"no limit ({setting})" if tokens.high is None else f"at most {tokens.high:,.0f} tokens"


def cost_words(cost: Range | None, prices: str) -> str:
    """A cost; or, if it is not known, what the names of the settings of its prices begin with."""
    if cost is None:
        return f"{UNKNOWN}; set {prices}input and {prices}output"
    if cost.high is None:
        return f"{dollars(cost.low)} or more"
    return dollars(cost.low) if cost.is_exact else f"{dollars(cost.low)} to {dollars(cost.high)}"


def range_words(found: Range) -> str:
    """A number of calls or tokens."""
    if found.is_exact:
        return f"{found.low:,.0f}"
    return f"{found.low:,.0f} or more" if found.high is None else f"{found.low:,.0f} to {found.high:,.0f}"
