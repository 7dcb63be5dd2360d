"""`judgegym score --plan`: what a run would ask, and what that would cost, before the first call. Nobody is asked.

The calls of all tasks are counted, and the tokens of a sample of them where there are many. Tasks of one shape (as many
responses, a baseline or none) have the same number of calls, which is found out once. Where it depends on the texts
(equal responses, groups that are divided by length), each task is gone through.

Of a run that a plan is to resume, files are only read: neither its lock nor its files are touched.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import conversation_of
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.counting import AskedInAll, CountingClient, with_responses
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.saved import missing_tasks, place_of, read_response
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.anchors import LOOKS, AnchorJudge, plan_anchors
from judgegym.engine.command import interruptible
from judgegym.engine.estimates import (
    LABEL,
    WIDTH,
    EarlierCalls,
    ModelPlan,
    Range,
    at_most,
    cost_words,
    enough,
    plan_line,
    range_words,
    sum_costs,
)
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import SAMPLES, run_directory_of
from judgegym.engine.terminal.output import dollars, duration
from judgegym.judges.core.seeding import generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.composite import TermOptions
from judgegym.judges.scorers.registry import MADE_OF_JUDGES, ScorerSettings, part_settings
from judgegym.llm.cost.images import tokens_of_images
from judgegym.llm.usage import count_tokens, how_counted

UNITS_COUNTED = 2_000
"""The most tasks whose tokens are counted."""
CALLS_COUNTED = 10_000
"""The most calls whose tokens are counted, where a task has many."""
UNITS_GONE_THROUGH = 10_000
"""The most tasks that are gone through because their calls depend on their texts."""

Shape: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would ask. Failed requests and answers without a verdict, which are asked for again, are not in it.

    Attributes:
        settings: of the run.
        rows: of the data.
        responses: of all rows.
        empty: responses that are empty, and are not judged.
        tasks: what is judged together: rows, or groups of rows, that are neither equal to an earlier one nor judged
            already.
        equal: tasks that are equal to an earlier one, and share its judgment.
        judge: what the judge is asked, without the calls whose answers the ledger holds; tokens are by our count.
        policy: what a policy is asked first; `None` without one. Its calls are from one request for all responses to a
            prompt to one for each, as its endpoint takes them.
        counted: the tasks on whose prompts tokens were counted; the others have as many on average.
        estimated_calls: how many tasks' calls are not counted either, but have the average of the others.
        earlier: of the run that is resumed.
        notes: what the numbers leave out, in sentences.
        parts: of a reward of several parts that ask a model.
    """

    settings: ScoreSettings
    rows: int
    responses: int
    empty: int
    tasks: int
    equal: int
    judge: ModelPlan
    policy: ModelPlan | None
    counted: int
    estimated_calls: int
    earlier: EarlierCalls
    notes: tuple[str, ...] = ()
    parts: Mapping[str, ModelPlan] = field(default_factory=dict)

    @property
    def whole(self) -> ModelPlan:
        """Judge and policy together."""
        return self.judge if self.policy is None else self.judge + self.policy

    @property
    def rate_seconds(self) -> float | None:
        """The least time by the limits a minute, in seconds: a minute's worth goes at once; `None` without a limit."""
        limits = (
            (self.judge.calls, self.settings.judge_requests_per_minute),
            (self.judge.prompt_tokens, self.settings.judge_tokens_per_minute),
        )
        times = [60.0 * max(0.0, needed.low / limit - 1.0) for needed, limit in limits if limit is not None]
        return max(times, default=None)


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
    judged, judge = bytearray(tasks.places.count), _BothWays(settings)
    for _, sample in () if run is None else read_lines(run / SAMPLES, read_response):
        if (place := place_of(sample, tasks)) is not None:
            judged[place] = 1
    left = missing_tasks(tasks, (place for place, is_judged in enumerate(judged) if not is_judged))
    rows, earlier = frozenset(tasks.uid(number) for number in left), EarlierCalls()
    if run is not None:
        earlier = EarlierCalls.of_run(run, rows.__contains__, judged=sum(judged))
    calls, estimated = await _calls(judge, tasks, left)
    each = calls.high or calls.low
    size = min(len(left), UNITS_COUNTED, max(1, int(CALLS_COUNTED * len(left) / each)) if each else UNITS_COUNTED)
    chosen = sorted(generator(settings.seed, "plan", "units").sample(range(len(left)), size))
    prompts = Range(0, 0)
    anchors = await _anchors(settings, judge, run)
    of_chosen = _BothWays(settings)  # begins to count the parts of a reward
    for place in chosen:
        _, tokens = await of_chosen.asked(with_responses(tasks[left[place]]))
        prompts += tokens
    if chosen:
        prompts = prompts.times(len(left) / len(chosen))
    held = earlier.held[False]
    if held:
        prompts = prompts.times(1.0 - min(1.0, held / calls.low) if calls.low else 1.0)
    calls = Range(max(0, calls.low - held), max(0, (calls.high or 0) - held))
    parts = of_chosen.parts(len(left) / len(chosen) if chosen else 0.0)
    asked = _judge_plan(settings, calls + anchors[0], prompts + anchors[1])
    if parts:  # they are those of the data
        of_anchors = _judge_plan(settings, *anchors)
        asked = replace(asked, cost=sum_costs(each.cost for each in (*parts.values(), of_anchors)))
    return Plan(
        settings=settings,
        rows=len(tasks.numbers),
        responses=tasks.places.count,
        empty=tasks.empty,
        tasks=len(left),
        equal=sum(number != first for number, first in enumerate(tasks.first_equal) if tasks.places.of_task(number)),
        judge=asked,
        policy=_policy_plan(settings, tasks, left, [left[place] for place in chosen], earlier.held[True]),
        counted=len(chosen),
        estimated_calls=estimated,
        earlier=earlier,
        notes=_notes(settings, is_tournament=judge.is_tournament(tasks)),
        parts=parts,
    )


def _judge_plan(settings: ScorerSettings, calls: Range, prompts: Range) -> ModelPlan:
    """What a judge is asked by so many calls with prompts of so many tokens."""
    longest = settings.judge_max_tokens
    completions = Range(calls.low, calls.high * longest if longest and calls.high else None)
    if settings.judge == "reward_model":  # a request carries up to so many responses, and its answer has no tokens
        calls, completions = Range(math.ceil(calls.low / settings.reward_batch), calls.high), Range(0, 0)
    if not calls.high:
        prompts = completions = Range(0, 0)
    return ModelPlan.of(settings.prices, calls, prompts, completions)


async def _anchors(settings: ScoreSettings, judge: _BothWays, run: Path | None) -> tuple[Range, Range]:
    """The calls that `--anchors` takes, and the tokens of their prompts."""
    calls = prompts = Range(0, 0)
    if settings.anchors is None:
        return calls, prompts
    of = AnchorJudge(settings.anchors, settings.judge, settings.judged_by, settings, judge.fewest.judge, lambda: ())
    anchors, few, most = plan_anchors(of, run)
    for anchor in anchors:
        asked, tokens = await judge.asked(anchor.task)
        calls += Range(few * asked.low, asked.times(most).high)
        prompts += Range(few * tokens.low, tokens.times(most).high)
    return calls, prompts


def _policy_plan(
    settings: ScoreSettings, tasks: ScoreTasks, left: Sequence[int], counted: Sequence[int], held: int
) -> ModelPlan | None:
    """What the policy would be asked; `None` if none is asked. Tokens are counted of some of the tasks."""
    each, longest, policy = settings.responses_per_prompt, settings.eval_max_tokens, settings.openai
    if each is None:
        return None
    tokens = 0.0
    for number in counted:
        asked = tasks[number].to_sample
        assert asked is not None  # the tasks of a run that samples are made so
        messages = conversation_of(asked.turns, settings)
        tokens += sum(count_tokens(message["content"]) for message in messages)
        tokens += tokens_of_images(messages, policy.api, policy.model_name)
    prompts = tokens * len(left) / max(1, len(counted))
    calls = Range(max(0, len(left) - held), max(0, each * len(left) - held))
    share = calls.high / (each * len(left)) if calls.high else 0.0
    responses = each * len(left) * share
    of_prompts = Range(prompts, each * prompts).times(share)
    of_responses = Range(responses, responses * longest if longest else None)
    return ModelPlan.of(policy.endpoint.prices, calls, of_prompts, of_responses)


class _BothWays:
    """The judge when it asks the fewest, and the most."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.settings = settings
        self.fewest = CountingClient(settings)
        self._parts = part_settings(settings)
        judges = [settings, *(part.settings for part in self._parts)]
        varies = any(each.judge in ("aspect", "cascade") or each.judge_critique_rounds > 0 for each in judges)
        self._most = CountingClient(settings, disagrees=True) if varies else None

    async def asked(self, task: JudgeTask) -> tuple[Range, Range]:
        """The calls that a task would take, and the tokens of their prompts."""
        low = await self.fewest.asked(task)
        high = low if self._most is None else await self._most.asked(task)
        return Range(low.calls, high.calls), Range(low.prompt_tokens, self._longest(high))

    def parts(self, factor: float) -> Mapping[str, ModelPlan]:
        """The plan of each part of a reward that asks a model: what was counted so far, so many times."""
        found = dict[str, ModelPlan]()
        for name, _, settings in self._parts:
            if settings.asks_endpoint:
                calls, tokens = round(self.fewest.calls_of[name] * factor), self.fewest.tokens_of[name] * factor
                found[name] = _judge_plan(settings, Range(calls, calls), Range(tokens, tokens))
        return found

    def shape(self, task: JudgeTask) -> Shape | None:
        """What determines the number of calls; `None` if the texts do."""
        if self._parts:
            return None  # a rule, or a gate, may save the calls of other parts
        filled = [response for response in task.responses if response.strip()]
        distinct = set(filled)
        if self.fewest.judge.compares(task):
            has_limit = self.settings.judge == "listwise" and self.settings.judge_max_input_tokens is not None
            if has_limit or len(distinct) < len(filled) or task.baseline in distinct:
                return None
        aspects = len(task.aspects) if task.aspects is not None else 0
        shown = task.baseline is not None, task.reference is not None
        return (len(distinct), len(task.responses), *shown, aspects, len(task.criteria or ()))

    def is_tournament(self, tasks: ScoreTasks) -> bool:
        """Whether the responses of the first task that can be judged play against each other."""
        first = next((number for number in range(len(tasks)) if tasks.places.of_task(number)), None)
        if first is None or self.settings.judge not in ("tournament", "arena_hard"):
            return False
        return self.fewest.judge.compares(with_responses(tasks[first]))

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
            by_shape[shape], _ = await judge.asked(task)
    total = sum((calls.times(times[shape]) for shape, calls in by_shape.items()), Range(0, 0))
    if not unlike:
        return total, 0
    gone = unlike
    if len(unlike) > UNITS_GONE_THROUGH:
        gone = generator(judge.settings.seed, "plan", "calls").sample(unlike, UNITS_GONE_THROUGH)
    of_unlike = Range(0, 0)
    for number in gone:
        of_task, _ = await judge.asked(with_responses(tasks[number]))
        of_unlike += of_task
    mean = of_unlike.times(len(unlike) / len(gone))
    high = None if mean.high is None else round(mean.high)
    return total + Range(round(mean.low), high), len(unlike) - len(gone)


def _price_setting(settings: ScorerSettings, place: str = "--") -> str:
    """What the settings of the price begin with that is not known; those of a part are its own."""
    for part in part_settings(settings):
        prices = part.settings.prices
        if part.settings.asks_endpoint and (prices.input is None or prices.output is None):
            return _price_setting(part.settings, f"{place}{MADE_OF_JUDGES[settings.judge].field}.{part.name}.")
    return f"{place}judge_price_"


def _notes(settings: ScoreSettings, *, is_tournament: bool) -> tuple[str, ...]:
    """What the numbers leave out."""
    if not settings.asks_endpoint and settings.responses_per_prompt is None:
        return ("The judge asks no endpoint.",)
    notes = [
        f"Tokens are counted as {how_counted()}; the judge's own count may differ.",
        "Failed requests are sent again, and so are questions whose answer has no verdict: they come on top.",
    ]
    if settings.responses_per_prompt is not None:
        notes.append(
            "What the judge is asked is for responses that all differ: it is less where they are equal, empty or fail. "
            "The most tokens are for responses of eval_max_tokens; one that is too short is asked for again, on top."
        )
    gates = [part for part in part_settings(settings) if isinstance(part.options, TermOptions) and part.options.gate]
    if any(gate.settings.asks_endpoint for gate in gates):
        notes.append("A response that does not reach a gate saves the calls of other parts; these are not taken off.")
    if settings.anchors is not None:
        notes.append(f"Anchors are among the judge's calls: the most is if they are judged {LOOKS} times.")
    if settings.judge_cache is not None:
        notes.append("Answers that the judgment cache has are not asked for; they are not taken off here.")
    if settings.judge == "aspect" and settings.vote_count() > 1 and settings.scoring == "majority":
        notes.append("The fewest calls are those of votes that agree; the most, of votes that differ.")
    if settings.judge_critique_rounds:
        notes.append(
            "A round of self-critique shows the judge its own answer: the fewest tokens are without it, the most with "
            "one of judge_max_tokens. A verdict that a round does not change gets no further round."
        )
    if settings.judge == "reward_model" and settings.reward_batch > 1:
        notes.append("The fewest calls are those of full requests (reward_batch); the most, of one response each.")
    if is_tournament and settings.schedule == "swiss":
        notes.append("In a swiss tournament results decide who meets, so its prompt tokens are approximate.")
    return tuple(notes)


_USUAL_ANSWERS_S = (1.0, 10.0)


def plan_lines(plan: Plan) -> list[str]:
    """The lines that the command prints."""
    lines = [line for label, words in _words(plan) for line in plan_line(label, words)]
    for note in plan.notes:
        lines += ["", *textwrap.wrap(note, WIDTH)]
    budget = _budget_line(plan)
    return lines if budget is None else [*lines, "", budget]


def _budget_line(plan: Plan) -> str | None:
    """Whether the budgets of a run are enough for its plan, in a sentence; `None` without a budget."""
    earlier, calls, usd, said = plan.earlier, plan.settings.budget_calls, plan.settings.budget_usd, list[str]()
    if calls is not None:
        said.append(f"{calls:,} calls {enough(plan.whole.calls, calls - earlier.paid[False] - earlier.held[True])}")
    if usd is not None and plan.whole.cost is not None:
        said.append(f"{dollars(usd)} {enough(plan.whole.cost, usd)}")
    return f"The budget: {'; '.join(said)}." if said else None


def _words(plan: Plan) -> Iterator[tuple[str, str]]:
    empty = f", {plan.empty:,} of them empty, which are not judged" if plan.empty else ""
    yield "rows", f"{plan.rows:,}"
    yield "responses", f"{plan.responses:,}{empty}"
    if plan.settings.resume:
        yield "judged already", f"{plan.earlier.judged:,} responses"
    equal = f"; {plan.equal:,} more are equal to one of the data and share its judgment" if plan.equal else ""
    yield "to judge", f"{plan.tasks:,} rows or groups{equal}"
    if plan.policy is not None:
        yield "policy calls", range_words(plan.policy.calls)
        yield "policy prompts", f"{range_words(plan.policy.prompt_tokens)} tokens"
        yield "policy responses", at_most(plan.policy.completion_tokens, "--eval_max_tokens")
        yield "policy cost", cost_words(plan.policy.cost, "--openai.price_")
    average = f" (an average for {plan.estimated_calls:,} of them)" if plan.estimated_calls else ""
    held = f"; {plan.earlier.held[False]:,} more are answered in the ledger" if plan.earlier.held[False] else ""
    cost = plan.whole.cost
    yield "judge calls", f"{range_words(plan.judge.calls)}{average}{held}"
    if not plan.settings.asks_endpoint:
        yield "cost", cost_words(cost, "--openai.price_")
        return
    for name, each in plan.parts.items():
        usd = "" if each.cost is None else f", {cost_words(each.cost, '')}"
        yield f"  {name}"[:LABEL], f"{range_words(each.calls)}{usd}"
    part = f" (counted on {plan.counted:,} of {plan.tasks:,})" if plan.counted < plan.tasks else ""
    yield "prompt tokens", f"{range_words(plan.judge.prompt_tokens)}{part}"
    yield "completion tokens", _completions(plan)
    if plan.policy is not None:
        yield "judge cost", cost_words(plan.judge.cost, _price_setting(plan.settings))
    yield "cost", cost_words(cost, _price_setting(plan.settings))
    if cost is not None and plan.judge.cost is not None:
        live = () if plan.policy is None else (plan.policy.cost,)
        yield "in a batch", cost_words(sum_costs((plan.judge.cost.times(plan.settings.batch_share), *live)), "")
    yield "least time", _least_time(plan)


def _completions(plan: Plan) -> str:
    highest = plan.judge.completion_tokens.high
    if highest is None:
        most = "no limit (--judge_max_tokens)"
    elif not highest or not plan.settings.judge_max_tokens:
        most = "none"
    else:
        most = f"at most {highest:,.0f}, {plan.settings.judge_max_tokens:,} an answer"
    if not plan.earlier.paid[False]:
        return most
    mean = plan.earlier.tokens[False] / plan.earlier.paid[False]
    return f"{most}; so far {mean:,.0f} an answer, so about {mean * plan.judge.calls.low:,.0f}"


def _least_time(plan: Plan) -> str:
    earlier, parts, at_once = plan.earlier, list[str](), plan.settings.judge_max_concurrency
    rounds = plan.judge.calls.low / at_once
    if plan.rate_seconds is not None:
        parts.append(f"{duration(plan.rate_seconds)} by the limits a minute")
    if earlier.paid[False]:
        mean = earlier.seconds / earlier.paid[False]
        parts.append(f"{duration(rounds * mean)} at {duration(mean)} an answer, as so far")
    else:
        times = (f"{duration(max(1.0, rounds) * each)} at {each:g} s" for each in _USUAL_ANSWERS_S)
        parts.append(f"{', '.join(times)} an answer")
    return f"{'; '.join(parts)} ({at_once:,} at once)"


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
    terminal.say("\n".join(plan_lines(plan)))
