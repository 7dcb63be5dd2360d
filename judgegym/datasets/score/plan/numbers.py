"""The numbers of a plan.

What tokens cost, from the least to the most.

What is there of a run that a plan is to resume. Only read: neither the run's lock nor its files are touched.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.saved import judged_places, missing_tasks
from judgegym.engine.runs.directory import SAMPLES
from judgegym.engine.runs.lines import LinesOfFile
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.llm.usage import Prices


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


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the ledger of the run holds.

    Attributes:
        judged: responses that are judged already, and are kept.
        held: the judge's answers to calls of the other rows, which are not asked for again.
        held_responses: the policy's answers for the other rows, likewise.
        answers: all answers of the judge that were paid for.
        completion_tokens: of these together.
        seconds: that these took, one after the other.
    """

    judged: int = 0
    held: int = 0
    held_responses: int = 0
    answers: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the judge's settings limit.

    Attributes:
        max_tokens: of an answer; 0 for no limit.
        concurrency: requests in flight.
        requests_per_minute: `None` for no limit.
        tokens_per_minute: `None` for no limit.
        prices: of a million tokens.
    """

    max_tokens: int
    concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    prices: Prices


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """What a policy would be asked for responses. Those that are too short are asked for again, which is not in it.

    Attributes:
        calls: from one request for all responses to a prompt to one for each, as its endpoint takes them.
        prompt_tokens: of these, by our count.
        completion_tokens: of all responses.
        cost: US dollars; `None` without a price.
    """

    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would ask. Failed requests and answers without a verdict, which are asked for again, are not in it.

    Attributes:
        rows: of the data.
        responses: of all rows.
        empty: responses that are empty, and are not judged.
        tasks: what is judged together: rows, or groups of rows, that are neither equal to an earlier one nor judged
            already.
        equal: tasks that are equal to an earlier one, and share its judgment.
        calls: requests to the judge, without those whose answers the ledger holds.
        prompt_tokens: of these, by our count.
        completion_tokens: of their answers.
        cost: US dollars for the judge; `None` without a price.
        policy: what a policy is asked first; `None` without one.
        counted: the tasks on whose prompts tokens were counted; the others have as many on average.
        estimated_calls: how many tasks' calls are not counted either, but have the average of the others.
        earlier: of the run that is resumed; `None` without one.
        limits: what the settings limit.
        notes: what the numbers leave out, in sentences.
    """

    rows: int
    responses: int
    empty: int
    tasks: int
    equal: int
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None
    policy: PolicyPlan | None
    counted: int
    estimated_calls: int
    earlier: Earlier | None
    limits: Limits
    notes: tuple[str, ...] = ()

    @property
    def total_cost(self) -> Range | None:
        """The cost of judge and policy; `None` if one is not known."""
        if self.policy is None or self.cost is None:
            return self.cost
        return None if self.policy.cost is None else self.cost + self.policy.cost

    @property
    def rate_seconds(self) -> float | None:
        """The least time by the limits a minute, in seconds: a minute's worth goes at once; `None` without a limit."""
        limits, found = self.limits, list[float]()
        if limits.requests_per_minute is not None:
            found.append(60.0 * max(0.0, self.calls.low / limits.requests_per_minute - 1.0))
        if limits.tokens_per_minute is not None:
            found.append(60.0 * max(0.0, self.prompt_tokens.low / limits.tokens_per_minute - 1.0))
        return max(found) if found else None

    @property
    def rounds(self) -> float:
        """How often the limit on requests in flight is filled: so many times the time of an answer is the least."""
        return self.calls.low / self.limits.concurrency


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


@dataclass(frozen=True, slots=True)
class RemainingTasks:
    """The tasks that are left to judge, and what the ledger holds."""

    tasks: array[int]
    earlier: Earlier


def tasks_left(tasks: ScoreTasks, run: Path | None) -> RemainingTasks:
    """What is left of a run; all of it without one.

    Args:
        tasks: all tasks of the data.
        run: the run's directory, which may not exist.

    Raises:
        RunDirectoryError: a line of it cannot be read.
    """
    done = bytearray(tasks.places.count)
    if run is not None:
        for _, place, _ in judged_places(LinesOfFile(run / SAMPLES), tasks):
            if place is not None:
                done[place] = 1
    numbers = missing_tasks(tasks, (place for place, is_done in enumerate(done) if not is_done))
    return RemainingTasks(numbers, Earlier() if run is None else _answers(tasks, run, numbers, sum(done)))


def _answers(tasks: ScoreTasks, run: Path, left: array[int], judged: int) -> Earlier:
    rows = frozenset(tasks.uid(number) for number in left)
    held = held_responses = answers = tokens = 0
    seconds = 0.0
    for call in read_calls(run):
        if call.is_of_policy:
            held_responses += call.row in rows
            continue
        held += call.has_verdict and call.row in rows
        if call.answer.attempts:
            answers += 1
            tokens += call.answer.usage.completion_tokens
            seconds += call.answer.latency_s
    return Earlier(judged, held, held_responses, answers, tokens, seconds)
