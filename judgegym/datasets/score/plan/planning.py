"""Counts what a run would ask: the calls of all tasks, the tokens of a sample of them where there are many.

Units of one shape (as many responses, a baseline or none) have the same number of calls, which is found out once.
Where it depends on the texts (equal responses, groups that are divided by length), each task is gone through.

A plan as text of at most 80 columns: a line for each number, and sentences for what the numbers leave out.

`--plan`: prints what a run would ask, and asks nobody.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.plan.asking import AskedInAll, CountingClient, CountingJudge, policy_plan, with_responses
from judgegym.datasets.score.plan.numbers import Limits, Plan, Range, cost_of, tasks_left
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.command import interruptible
from judgegym.engine.runs.directory import run_directory_of
from judgegym.engine.terminal.output import UNKNOWN, dollars, duration
from judgegym.judges.core.seeding import generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.usage import Prices, how_counted

UNITS_COUNTED = 2_000
"""The most tasks whose tokens are counted."""
CALLS_COUNTED = 10_000
"""The most calls whose tokens are counted, where a task has many."""
UNITS_GONE_THROUGH = 10_000
"""The most tasks that are gone through because their calls depend on their texts."""

Shape: TypeAlias = "tuple[int, int, bool, bool, int]"


async def plan_of(settings: ScoreSettings, tasks: ScoreTasks, *, run: Path | None = None) -> Plan:
    """Count what judging a data set would ask.

    Args:
        settings: the judge, and the policy if one is asked for responses.
        tasks: the data set; bad rows have no response, and are left out.
        run: the directory of the run to resume; `None` for a new run.

    Raises:
        SettingsError: the judge's settings are wrong.
        RunDirectoryError: the run cannot be read.
    """
    left = tasks_left(tasks, run)
    judge = _BothWays(settings)
    calls, estimated = await _calls(judge, tasks, left.tasks)
    each = calls.high or calls.low
    size = min(len(left.tasks), UNITS_COUNTED, max(1, int(CALLS_COUNTED * len(left.tasks) / each)) if each else 0)
    chosen = sorted(generator(settings.seed, "plan", "units").sample(range(len(left.tasks)), size))
    tokens, counted = Range(0, 0), Range(0, 0)
    for place in chosen:
        asked = await judge.asked(with_responses(tasks[left.tasks[place]]))
        tokens, counted = tokens + asked.prompt_tokens, counted + asked.calls
    if chosen:
        tokens = tokens.times(len(left.tasks) / len(chosen))
    limits = _limits(settings)
    share = 1.0 - min(1.0, left.earlier.held / calls.low) if calls.low else 1.0
    calls = Range(max(0, calls.low - left.earlier.held), max(0, (calls.high or 0) - left.earlier.held))
    prompts = tokens if share == 1.0 else tokens.times(share)
    completions = Range(calls.low, calls.high * limits.max_tokens if limits.max_tokens and calls.high else None)
    if not calls.high:
        prompts = completions = Range(0, 0)
    return Plan(
        rows=len(tasks.numbers),
        responses=tasks.places.count,
        empty=tasks.empty,
        tasks=len(left.tasks),
        equal=sum(number != first for number, first in enumerate(tasks.first_equal) if tasks.places.of_task(number)),
        calls=calls,
        prompt_tokens=prompts,
        completion_tokens=completions,
        cost=cost_of(limits.prices, prompts, completions),
        policy=policy_plan(settings, tasks, left, [left.tasks[place] for place in chosen]),
        counted=len(chosen),
        estimated_calls=estimated,
        earlier=None if run is None else left.earlier,
        limits=limits,
        notes=_notes(settings, is_tournament=_is_tournament(judge, tasks)),
    )


@dataclass(frozen=True, slots=True)
class _Ranges:
    calls: Range
    prompt_tokens: Range


class _BothWays:
    """The judge when it asks the fewest, and the most."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.settings = settings
        self._fewest = CountingJudge(settings)
        varies = settings.judge == "aspect" or settings.judge_critique_rounds > 0
        self._most = CountingJudge(settings, disagrees=True) if varies else None

    async def asked(self, task: JudgeTask) -> _Ranges:
        """What would be sent for a task."""
        low = await self._fewest.asked(task)
        high = low if self._most is None else await self._most.asked(task)
        return _Ranges(Range(low.calls, high.calls), Range(low.prompt_tokens, self._longest(high)))

    def shape(self, task: JudgeTask) -> Shape | None:
        """What determines the number of calls; `None` if the texts do."""
        filled = [response for response in task.responses if response.strip()]
        distinct = set(filled)
        if self._fewest.scorer.compares(task):
            has_limit = self.settings.judge == "listwise" and self.settings.judge_max_input_tokens is not None
            if has_limit or len(distinct) < len(filled) or task.baseline in distinct:
                return None
        aspects = len(task.aspects) if task.aspects is not None else 0
        return (
            len(distinct),
            len(task.responses),
            task.baseline is not None,
            task.reference is not None,
            aspects,
        )

    def is_tournament(self, task: JudgeTask) -> bool:
        """Whether the responses of a task play against each other."""
        return self.settings.judge in ("tournament", "arena_hard") and self._fewest.scorer.compares(task)

    def _longest(self, asked: AskedInAll) -> int | None:
        """The tokens of all prompts if all answers and responses that they show are as long as they may be."""
        answer, response = self.settings.judge_max_tokens, self.settings.eval_max_tokens
        if (asked.shown_answers and not answer) or (asked.shown_responses and not response):
            return None
        return asked.prompt_tokens + asked.shown_answers * answer + asked.shown_responses * response


async def _calls(judge: _BothWays, tasks: ScoreTasks, numbers: Sequence[int]) -> tuple[Range, int]:
    """The calls of all tasks, and for how many of these they are an average."""
    by_shape, times, unlike = dict[Shape, Range](), Counter[Shape](), list[int]()
    for number in numbers:
        task = with_responses(tasks[number])
        shape = judge.shape(task)
        if shape is None:
            unlike.append(number)
            continue
        times[shape] += 1
        if shape not in by_shape:
            by_shape[shape] = (await judge.asked(task)).calls
    total = sum((calls.times(times[shape]) for shape, calls in by_shape.items()), Range(0, 0))
    if not unlike:
        return total, 0
    gone = unlike
    if len(unlike) > UNITS_GONE_THROUGH:
        gone = generator(judge.settings.seed, "plan", "calls").sample(unlike, UNITS_GONE_THROUGH)
    of_unlike = Range(0, 0)
    for number in gone:
        of_unlike += (await judge.asked(with_responses(tasks[number]))).calls
    mean = of_unlike.times(len(unlike) / len(gone))
    high = None if mean.high is None else round(mean.high)
    return total + Range(round(mean.low), high), len(unlike) - len(gone)


def _is_tournament(judge: _BothWays, tasks: ScoreTasks) -> bool:
    """Whether the responses of the first task that can be judged play against each other."""
    first = next((number for number in range(len(tasks)) if tasks.places.of_task(number)), None)
    return first is not None and judge.is_tournament(with_responses(tasks[first]))


def _limits(settings: ScoreSettings) -> Limits:
    return Limits(
        settings.judge_max_tokens,
        settings.judge_max_concurrency,
        settings.judge_requests_per_minute,
        settings.judge_tokens_per_minute,
        Prices(settings.judge_price_input, settings.judge_price_output, settings.judge_price_cached_input),
    )


def _notes(settings: ScoreSettings, *, is_tournament: bool) -> tuple[str, ...]:
    """What the numbers leave out."""
    notes = [
        f"Tokens are counted as {how_counted()}; the judge's own count may differ.",
        "Failed requests are sent again, and so are questions whose answer has no verdict: they come on top.",
    ]
    if settings.responses_per_prompt is not None:
        notes.append(
            "What the judge is asked is for responses that all differ: it is less where they are equal, empty or fail. "
            "The most tokens are for responses of eval_max_tokens; one that is too short is asked for again, on top."
        )
    if settings.judge_cache is not None:
        notes.append("Answers that the judgment cache has are not asked for; they are not taken off here.")
    if settings.judge == "aspect" and settings.vote_count() > 1 and settings.scoring == "majority":
        notes.append("The fewest calls are those of votes that agree; the most, of votes that differ.")
    if settings.judge_critique_rounds:
        notes.append(
            "A round of self-critique shows the judge its own answer: the fewest tokens are without it, the most with "
            "one of judge_max_tokens. A verdict that a round does not change gets no further round."
        )
    if is_tournament and settings.schedule == "swiss":
        notes.append("In a swiss tournament results decide who meets, so its prompt tokens are approximate.")
    return tuple(notes)


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
    yield "to judge", f"{plan.tasks:,} rows or groups{equal}"
    if plan.policy is not None:
        yield "policy calls", _range(plan.policy.calls)
        yield "policy prompts", f"{_range(plan.policy.prompt_tokens)} tokens"
        yield "policy responses", _most(plan.policy.completion_tokens, "--eval_max_tokens")
        yield "policy cost", _cost(plan.policy.cost, "--openai.price_")
    average = f" (an average for {plan.estimated_calls:,} of them)" if plan.estimated_calls else ""
    held = f"; {plan.earlier.held:,} more are answered in the ledger" if plan.earlier and plan.earlier.held else ""
    yield "judge calls", f"{_range(plan.calls)}{average}{held}"
    part = f" (counted on {plan.counted:,} of {plan.tasks:,})" if plan.counted < plan.tasks else ""
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
        tasks = ScoreRun(settings, data, out, ScoreClients(CountingClient(settings))).tasks
    plan = await plan_of(settings, tasks, run=run_directory_of(out) if settings.resume else None)
    for line in plan_lines(plan):
        terminal.say(line)
    budget = budget_line(plan, settings.budget_calls, settings.budget_usd)
    if budget is not None:
        terminal.say(f"\n{budget}")
