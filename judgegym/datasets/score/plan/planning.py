"""Counts what a run would ask: the calls of all units, the tokens of a sample of them where there are many.

Units of one shape (as many responses, a baseline or none) have the same number of calls, which is found out once.
Where it depends on the texts (equal responses, groups that are divided by length), each unit is gone through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.plan.asking import AskedInAll, CountingJudge, policy_plan, with_responses
from judgegym.datasets.score.plan.numbers import Limits, Plan, Range, cost_of, units_left
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.judges.core.seeding import generator
from judgegym.judges.scorers.items import Item
from judgegym.llm.usage import Prices, how_counted

UNITS_COUNTED = 2_000
"""The most units whose tokens are counted."""
CALLS_COUNTED = 10_000
"""The most calls whose tokens are counted, where a unit has many."""
UNITS_GONE_THROUGH = 10_000
"""The most units that are gone through because their calls depend on their texts."""

Shape: TypeAlias = "tuple[int, int, bool, bool, int]"


async def plan_of(settings: ScoreSettings, units: ScoreTasks, *, run: Path | None = None) -> Plan:
    """Count what judging a data set would ask.

    Args:
        settings: the judge, and the policy if one is asked for responses.
        units: the data set; bad rows have no response, and are left out.
        run: the directory of the run to resume; `None` for a new run.

    Raises:
        SettingsError: the judge's settings are wrong.
        RunDirectoryError: the run cannot be read.
    """
    left = units_left(units, run)
    judge = _BothWays(settings)
    calls, estimated = await _calls(judge, units, left.units)
    each = calls.high or calls.low
    size = min(len(left.units), UNITS_COUNTED, max(1, int(CALLS_COUNTED * len(left.units) / each)) if each else 0)
    chosen = sorted(generator(settings.seed, "plan", "units").sample(range(len(left.units)), size))
    tokens, counted = Range(0, 0), Range(0, 0)
    for place in chosen:
        asked = await judge.asked(with_responses(units[left.units[place]]))
        tokens, counted = tokens + asked.prompt_tokens, counted + asked.calls
    if chosen:
        tokens = tokens.times(len(left.units) / len(chosen))
    limits = _limits(settings)
    share = 1.0 - min(1.0, left.earlier.held / calls.low) if calls.low else 1.0
    calls = Range(max(0, calls.low - left.earlier.held), max(0, (calls.high or 0) - left.earlier.held))
    prompts = tokens if share == 1.0 else tokens.times(share)
    completions = Range(calls.low, calls.high * limits.max_tokens if limits.max_tokens and calls.high else None)
    if not calls.high:
        prompts = completions = Range(0, 0)
    return Plan(
        rows=len(units.numbers),
        responses=units.places.count,
        empty=units.empty,
        units=len(left.units),
        equal=sum(number != first for number, first in enumerate(units.first_equal) if units.places.of_unit(number)),
        calls=calls,
        prompt_tokens=prompts,
        completion_tokens=completions,
        cost=cost_of(limits.prices, prompts, completions),
        policy=policy_plan(settings, units, left, [left.units[place] for place in chosen]),
        counted=len(chosen),
        estimated_calls=estimated,
        earlier=None if run is None else left.earlier,
        limits=limits,
        notes=_notes(settings, is_tournament=_is_tournament(judge, units)),
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

    async def asked(self, item: Item) -> _Ranges:
        """What would be sent for an item."""
        low = await self._fewest.asked(item)
        high = low if self._most is None else await self._most.asked(item)
        return _Ranges(Range(low.calls, high.calls), Range(low.prompt_tokens, self._longest(high)))

    def shape(self, item: Item) -> Shape | None:
        """What determines the number of calls; `None` if the texts do."""
        filled = [response for response in item.responses if response.strip()]
        distinct = set(filled)
        if self._fewest.scorer.compares(item):
            has_limit = self.settings.judge == "listwise" and self.settings.judge_max_input_tokens is not None
            if has_limit or len(distinct) < len(filled) or item.baseline in distinct:
                return None
        aspects = len(item.aspects) if item.aspects is not None else 0
        return len(distinct), len(item.responses), item.baseline is not None, item.reference is not None, aspects

    def is_tournament(self, item: Item) -> bool:
        """Whether the responses of an item play against each other."""
        return self.settings.judge in ("tournament", "arena_hard") and self._fewest.scorer.compares(item)

    def _longest(self, asked: AskedInAll) -> int | None:
        """The tokens of all prompts if all answers and responses that they show are as long as they may be."""
        answer, response = self.settings.judge_max_tokens, self.settings.eval_max_tokens
        if (asked.shown_answers and not answer) or (asked.shown_responses and not response):
            return None
        return asked.prompt_tokens + asked.shown_answers * answer + asked.shown_responses * response


async def _calls(judge: _BothWays, units: ScoreTasks, numbers: Sequence[int]) -> tuple[Range, int]:
    """The calls of all units, and for how many of these they are an average."""
    by_shape, times, unlike = dict[Shape, Range](), Counter[Shape](), list[int]()
    for number in numbers:
        item = with_responses(units[number])
        shape = judge.shape(item)
        if shape is None:
            unlike.append(number)
            continue
        times[shape] += 1
        if shape not in by_shape:
            by_shape[shape] = (await judge.asked(item)).calls
    total = sum((calls.times(times[shape]) for shape, calls in by_shape.items()), Range(0, 0))
    if not unlike:
        return total, 0
    gone = unlike
    if len(unlike) > UNITS_GONE_THROUGH:
        gone = generator(judge.settings.seed, "plan", "calls").sample(unlike, UNITS_GONE_THROUGH)
    of_unlike = Range(0, 0)
    for number in gone:
        of_unlike += (await judge.asked(with_responses(units[number]))).calls
    mean = of_unlike.times(len(unlike) / len(gone))
    high = None if mean.high is None else round(mean.high)
    return total + Range(round(mean.low), high), len(unlike) - len(gone)


def _is_tournament(judge: _BothWays, units: ScoreTasks) -> bool:
    """Whether the responses of the first unit that can be judged play against each other."""
    first = next((number for number in range(len(units)) if units.places.of_unit(number)), None)
    return first is not None and judge.is_tournament(with_responses(units[first]))


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
