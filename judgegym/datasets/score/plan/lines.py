"""A plan as text of at most 80 columns: a line for each number, and sentences for what the numbers leave out.

`--plan`: prints what a run would ask, and asks nobody.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.plan.asking import CountingClient
from judgegym.datasets.score.plan.numbers import Plan, Range
from judgegym.datasets.score.plan.planning import plan_of
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.runs.directory import run_directory_of
from judgegym.engine.terminal.output import UNKNOWN, dollars, duration
from judgegym.environments.command_line.commands import interruptible

_WIDTH = 80
_LABEL = 19
_USUAL_ANSWERS_S = (1.0, 10.0)


def plan_lines(plan: Plan) -> list[str]:
    """The lines that the command prints."""
    lines = [line for label, words in _words(plan) for line in _line(label, words)]
    for note in plan.notes:
        lines += ["", *textwrap.wrap(note, _WIDTH)]
    return lines


def budget_line(plan: Plan, calls: int | None, usd: float | None) -> str | None:
    """Whether the budgets of a run are enough for its plan, in a sentence; `None` without a budget."""
    earlier, said = plan.earlier, list[str]()
    before = 0 if earlier is None else earlier.answers + earlier.held_responses
    if calls is not None:
        needed = plan.calls if plan.policy is None else plan.calls + plan.policy.calls
        said.append(f"{calls:,} calls {_enough(needed, calls - before)}")
    if usd is not None and plan.total_cost is not None:
        said.append(f"{dollars(usd)} {_enough(plan.total_cost, usd)}")
    return f"The budget: {'; '.join(said)}." if said else None


def _enough(needed: Range, budget: float) -> str:
    if needed.high is not None and needed.high <= budget:
        return "are enough"
    return "may be enough" if needed.low <= budget else "are not enough"


def _line(label: str, words: str) -> Iterator[str]:
    first, *rest = textwrap.wrap(words, _WIDTH - _LABEL - 2, break_on_hyphens=False)
    yield f"{label:<{_LABEL}}  {first}"
    yield from (f"{'':<{_LABEL}}  {part}" for part in rest)


def _words(plan: Plan) -> Iterator[tuple[str, str]]:
    empty = f", {plan.empty:,} of them empty, which are not judged" if plan.empty else ""
    yield "rows", f"{plan.rows:,}"
    yield "responses", f"{plan.responses:,}{empty}"
    if plan.earlier is not None:
        yield "judged already", f"{plan.earlier.judged:,} responses"
    equal = f"; {plan.equal:,} more are equal to one of the data and share its judgment" if plan.equal else ""
    yield "to judge", f"{plan.units:,} rows or groups{equal}"
    if plan.policy is not None:
        yield "policy calls", _range(plan.policy.calls)
        yield "policy prompts", f"{_range(plan.policy.prompt_tokens)} tokens"
        yield "policy responses", _most(plan.policy.completion_tokens, "--eval_max_tokens")
        yield "policy cost", _cost(plan.policy.cost, "--openai.price_")
    average = f" (an average for {plan.estimated_calls:,} of them)" if plan.estimated_calls else ""
    held = f"; {plan.earlier.held:,} more are answered in the ledger" if plan.earlier and plan.earlier.held else ""
    yield "judge calls", f"{_range(plan.calls)}{average}{held}"
    part = f" (counted on {plan.counted:,} of {plan.units:,})" if plan.counted < plan.units else ""
    yield "prompt tokens", f"{_range(plan.prompt_tokens)}{part}"
    yield "completion tokens", _completions(plan)
    if plan.policy is not None:
        yield "judge cost", _cost(plan.cost, "--judge_price_")
    yield "cost", _cost(plan.total_cost, "--judge_price_")
    yield "least time", _least_time(plan)


def _completions(plan: Plan) -> str:
    if plan.completion_tokens.high is None:
        most = "no limit (--judge_max_tokens)"
    elif not plan.limits.max_tokens:
        most = "none"
    else:
        most = f"at most {plan.completion_tokens.high:,.0f}, {plan.limits.max_tokens:,} an answer"
    earlier = plan.earlier
    if earlier is None or not earlier.answers:
        return most
    mean = earlier.completion_tokens / earlier.answers
    return f"{most}; so far {mean:,.0f} an answer, so about {mean * plan.calls.low:,.0f}"


def _most(tokens: Range, setting: str) -> str:
    return f"no limit ({setting})" if tokens.high is None else f"at most {tokens.high:,.0f} tokens"


def _cost(cost: Range | None, prices: str) -> str:
    if cost is None:
        return f"{UNKNOWN}; set {prices}input and {prices}output"
    if cost.high is None:
        return f"{dollars(cost.low)} or more"
    return dollars(cost.low) if cost.is_exact else f"{dollars(cost.low)} to {dollars(cost.high)}"


def _least_time(plan: Plan) -> str:
    earlier, parts = plan.earlier, list[str]()
    if plan.rate_seconds is not None:
        parts.append(f"{duration(plan.rate_seconds)} by the limits a minute")
    if earlier is not None and earlier.answers:
        mean = earlier.seconds / earlier.answers
        parts.append(f"{duration(plan.rounds * mean)} at {duration(mean)} an answer, as so far")
    else:
        times = (f"{duration(max(1.0, plan.rounds) * each)} at {each:g} s" for each in _USUAL_ANSWERS_S)
        parts.append(f"{', '.join(times)} an answer")
    return f"{'; '.join(parts)} ({plan.limits.concurrency:,} at once)"


def _range(found: Range) -> str:
    if found.is_exact:
        return f"{found.low:,.0f}"
    return f"{found.low:,.0f} or more" if found.high is None else f"{found.low:,.0f} to {found.high:,.0f}"


async def show_plan(settings: ScoreSettings, data: str, out: Path) -> None:
    """Print the plan of a run.

    Args:
        settings: of the run; with `resume` what is there of it is taken off.
        data: where the rows are.
        out: the file that the run would write.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run cannot be read.
    """
    with interruptible(is_profiled=settings.profile is not None):
        units = ScoreRun(settings, data, out, ScoreClients(CountingClient(settings))).units
    plan = await plan_of(settings, units, run=run_directory_of(out) if settings.resume else None)
    for line in plan_lines(plan):
        terminal.say(line)
    budget = budget_line(plan, settings.budget_calls, settings.budget_usd)
    if budget is not None:
        terminal.say(f"\n{budget}")
