"""Reward functions for TRL: from a judge at a reward server or in this process, or combined.

The score of a failed judge, and of a row that cannot be judged, is `None`. An empty completion is a
wrong answer (`invalid_completion_score`), and is not judged. A judge that compares completions
(`listwise`, `tournament`, `choice`, `arena_hard` without a baseline) needs `group_size`, which is
the trainer's `num_generations`.

TRL adds the scores of several reward functions and leaves `None` out of the sum, so that a failed
judge counts as a score of 0 next to the others' scores. `combined_reward` leaves such a completion
out of the group instead. A judge that fails 32 times in a row, or for two groups, ends the
training.

Source: TRL 1.16.0, `GRPOTrainer._calculate_rewards`, `._generate_and_score_completions` (`nansum`),
`AsyncRolloutWorker`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, groupby
from typing import Any, cast

from judgegym.judges.core.event_loop import run_blocking
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores.groups import GroupedBatch
from judgegym_trainers.scores.requests import (
    FIELDS,
    CompletionRow,
    Conversation,
    Field,
    make_completion_row,
)
from judgegym_trainers.scores.results import CompletionReward, FailureStreak
from judgegym_trainers.scores.sources import JudgeSource, check_settings
from judgegym_trainers.trl.trainer import (
    check_sum,
    check_worker,
    close_after,
    find_group_size,
    find_trainer,
)

logger = logging.getLogger(__name__)


class RewardFunction:
    """A reward function as TRL calls it, once for each batch.

    An error ends the training, and closes everything. The function pickles as the call that made
    it: TRL's asynchronous trainer sends it to another process, where it opens again what it needs.

    Attributes:
        __name__: its name in TRL's log.
        close: closes what it has opened.
        rows_of: the environment whose rows alone it scores, by their column `environment`; `None`
            if it scores all rows.
    """

    def __init__(
        self,
        score: Callable[..., Awaitable[list[float | None]]],
        name: str,
        close: Callable[[], Awaitable[None]],
        factory: Callable[[], RewardFunction],
        *,
        rows_of: str | None = None,
    ) -> None:
        """Score batches with `score`; `factory` makes the same function again, and pickles."""
        self.__name__ = name
        self.close = close
        self.rows_of = rows_of
        self._score = score
        self._factory = factory

    async def __call__(
        self,
        prompts: Sequence[Conversation],
        completions: Sequence[Conversation],
        **columns: object,
    ) -> list[float | None]:
        """Return a score for each completion; `None` if there is none."""
        try:
            check_sum(find_trainer(columns), self, columns)
            return await self._score(prompts, completions, columns)
        except (
            BaseException
        ):  # any error, also a cancellation: TRL does not signal the end of the training
            await self.close()
            raise

    def __reduce__(self) -> tuple[Callable[[], RewardFunction], tuple[()]]:
        """Pickle as the call that makes it again; see `check_worker`."""
        check_worker(self)
        return self._factory, ()


async def close(reward: RewardFunction) -> None:
    """Close a function's connections now; otherwise they are closed when the training ends."""
    await reward.close()


def _find_loggers(columns: Mapping[str, object]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return TRL's loggers of columns and metrics, or functions that do nothing."""
    extra, metric = (columns.get(name) for name in ("log_extra", "log_metric"))
    return (extra if callable(extra) else _log_nothing), (
        metric if callable(metric) else _log_nothing
    )


def _log_nothing(name: str, value: object) -> None: ...


def log_results(
    results: Sequence[CompletionReward | None],
    columns: Mapping[str, object],
    name: str,
    streak: FailureStreak,
    group_size: int | None,
) -> list[float | None]:
    """Log explanations, statuses, shares of failed and empty completions, and means of metrics.

    Args:
        results: one for each completion; `None` for completions that other functions score, which
            count in no share.
        columns: the keywords of the call.
        name: prefix of the names of columns and metrics.
        streak: the failures so far.
        group_size: the number of completions of each prompt; `None` if unknown, as in TRL's
            asynchronous trainer, whose calls have one group each.

    Returns:
        The reward of each completion.

    Raises:
        NoRewardError: the judge is down.
    """
    extra, metric = _find_loggers(columns)
    extra(
        f"{name}_explanation",
        [None if result is None else result.explanation for result in results],
    )
    extra(f"{name}_status", [None if result is None else result.status for result in results])
    own_results = [result for result in results if result is not None]
    if own_results:
        metric(f"{name}_failed", sum(result.is_failed for result in own_results) / len(own_results))
        metric(
            f"{name}_invalid", sum(result.is_invalid for result in own_results) / len(own_results)
        )
    for key in sorted(set[str]().union(*(result.metrics for result in own_results))):
        values = [result.metrics[key] for result in own_results if key in result.metrics]
        metric(f"{name}/{key}", math.fsum(values) / len(values))
    count_failures(own_results, streak, group_size or len(results))
    return [None if result is None else result.reward for result in results]


def count_failures(
    results: Sequence[CompletionReward], streak: FailureStreak, group_size: int
) -> None:
    """Warn of a batch's failures, with the last one's reason, and count those in a row.

    Raises:
        NoRewardError: the judge is down.
    """
    failed = [result for result in results if result.is_failed]
    if failed:
        reason = failed[-1].explanation or "no reason was given"
        message = (
            "%d of %d completions have no reward, because the judge failed, the last one with: %s"
        )
        logger.warning(message, len(failed), len(results), reason)
    for result in results:
        streak.add(result, group_size)


def read_cell(columns: Mapping[str, object], name: str, index: int) -> Any:
    """Return a completion's cell in a column; `None` if there is none."""
    column = columns.get(name)
    if isinstance(column, Sequence) and index < len(column):
        return column[index]
    return None


def _map_columns() -> dict[str, Field]:
    """Return the field of each usual column; if several fields use a column, the first counts."""
    columns: dict[str, Field] = {}
    for name in reversed(FIELDS):
        columns |= {column.partition(".")[0]: name for column in reversed(USUAL_COLUMNS[name])}
    return columns


COLUMNS: Mapping[str, Field] = _map_columns()
"""Dataset columns that are sent to the judge, with their request field; `rubric` may be criteria.
"""


def judge_reward(
    url: str | None = None, *, group_size: int | None = None, name: str = "judge", **settings: Any
) -> RewardFunction:
    """Make a reward function from a reward server (`url`) or a judge in this process (`judge`).

    Args:
        url: the URL of a reward server.
        group_size: the trainer's `num_generations`: compare the completions of a group with each
            other (listwise, tournament, choice, arena_hard), or let a cascade at a server use one
            judge for all of them; a cascade in this process always does so. A group that is spread
            over several processes is gathered, and judged by one of them. In evaluations the size
            is the trainer's `num_generations_eval`.
        name: the function's name in TRL's log.
        settings: further settings of `JudgeSource`: `judge`, the settings of a judge to run in this
            process, under the server's names; `token`, `token_env` and `mount` of the server;
            `invalid_completion_score` of an empty completion (0), which `None` leaves out;
            `timeout_s`, seconds for one attempt at the server; `deadline_s`, seconds within which a
            batch has its scores: what has none by then is `None`.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
            Settings that only the server or the judge's endpoint can check (a mount, a token) raise
            it at the first batch, which ends the training.
    """
    source = JudgeSource(url, **settings)
    if group_size is None and source.compares:
        raise SettingsError(
            "group_size: a judge that compares completions needs the number of those of each "
            "prompt, which is the trainer's num_generations"
        )
    if group_size is not None and group_size < 2:
        raise SettingsError(
            f"group_size: expected 2 or more completions to compare, found {group_size}"
        )
    return _make_source_reward(source, group_size, name)


def _make_source_reward(source: JudgeSource, group_size: int | None, name: str) -> RewardFunction:
    """Make the function of `judge_reward`."""
    scoring = source.make_scorer()
    groups = GroupedBatch(scoring)
    streak = FailureStreak()

    def close_now() -> None:
        run_blocking(scoring.close())

    async def score(
        prompts: Sequence[Conversation],
        completions: Sequence[Conversation],
        columns: Mapping[str, object],
    ) -> list[float | None]:
        trainer = find_trainer(columns)
        close_after(trainer, close_now)
        rows = [
            _make_row(prompt, completions[index], columns, index)
            for index, prompt in enumerate(prompts)
        ]
        size = find_group_size(trainer, group_size)
        is_grouped = group_size is not None or source.depends_on_group
        if is_grouped and size is not None:
            results = await groups.score(rows, size)
        elif is_grouped:  # neighbours with the same row are a group
            neighbours = [list(group) for _, group in groupby(rows, key=lambda row: row.shared)]
            results = [*chain.from_iterable(await scoring.score(neighbours))]
        else:
            results = await scoring.score_each(rows)
        return log_results(results, columns, name, streak, size)

    return RewardFunction(
        score, name, scoring.close, partial(_make_source_reward, source, group_size, name)
    )


def _make_row(
    prompt: Conversation, completion: Conversation, columns: Mapping[str, object], index: int
) -> CompletionRow:
    cells = {name: read_cell(columns, name, index) for name in COLUMNS}
    return make_completion_row(prompt, completion, cells)


PartFunction = Callable[..., "Sequence[float | None] | Awaitable[Sequence[float | None]]"]
"""A reward function of TRL, JudgeGym's or any other; sync or async."""
Scores = list["float | None"]


def combined_reward(
    functions: Sequence[PartFunction],
    *,
    weights: Sequence[float] | None = None,
    name: str = "combined",
) -> RewardFunction:
    """Make one reward function of several.

    The score of a completion is the weighted sum of the parts' scores, and `None` if any part has
    none (`None` or NaN), or if a part's score or the sum is infinite: TRL would make advantages of
    NaN of it for the whole group. TRL's log has `rewards/PART/mean` for each part, and the table of
    completions a column for each.

    Args:
        functions: reward functions as TRL calls them, sync or async. Sync ones are called in a
            thread.
        weights: a finite factor for each function, by default 1.
        name: the function's name in TRL's log.

    Raises:
        SettingsError: there are no functions, two have one name, the weights do not fit, or two
            functions are of different environments, which have no row in common.
    """
    parts = list(functions)
    names = [str(getattr(part, "__name__", type(part).__name__)) for part in parts]
    if not parts or len({*names, name}) != len(names) + 1:
        name_list = ", ".join(names) or "none"
        raise SettingsError(
            f"functions: expected functions with names of their own, found {name_list}"
        )
    factors = [1.0] * len(parts) if weights is None else [float(weight) for weight in weights]
    if len(factors) != len(parts):
        count = len(factors)
        expected = len(parts)
        raise SettingsError(
            f"weights: expected one for each of {expected} functions, found {count}"
        )
    check_settings(
        **{f"weight of {part}": factor for part, factor in zip(names, factors, strict=True)}
    )
    environments = {
        environment_name
        for part in parts
        if (environment_name := getattr(part, "rows_of", None)) is not None
    }
    if len(environments) > 1:
        name_list = ", ".join(sorted(environments))
        raise SettingsError(
            f"functions: expected those of one environment, found {name_list}; combine each with "
            "the other functions of its rows"
        )

    async def score(
        prompts: Sequence[Conversation],
        completions: Sequence[Conversation],
        columns: Mapping[str, object],
    ) -> Scores:
        keywords = {"prompts": prompts, "completions": completions, **columns}
        extra, metric = _find_loggers(columns)
        named_parts = zip(parts, names, strict=True)
        by_part = await gather_results(
            _call_part(part, keywords, part_name) for part, part_name in named_parts
        )
        for part, scores in zip(names, by_part, strict=True):
            if len(scores) != len(completions):
                count = len(scores)
                expected = len(completions)
                raise SettingsError(f"{part}: expected {expected} scores, found {count}")
            extra(part, scores)  # under the names that TRL uses for its own functions
            if present := [value for value in scores if value is not None]:
                metric(f"rewards/{part}/mean", math.fsum(present) / len(present))
        return [_weighted_sum(factors, scores, name) for scores in zip(*by_part, strict=True)]

    async def close_parts() -> None:
        for part in parts:
            if isinstance(part, RewardFunction):
                await part.close()

    factory = partial(combined_reward, parts, weights=factors, name=name)
    return RewardFunction(score, name, close_parts, factory, rows_of=next(iter(environments), None))


def _weighted_sum(
    factors: Sequence[float], scores: Sequence[float | None], name: str
) -> float | None:
    """Return the sum if it is finite and no score is missing; else `None`."""
    if None in scores:
        return None
    pairs = zip(factors, cast("Sequence[float]", scores), strict=True)
    try:
        total = math.fsum(factor * score for factor, score in pairs)
    except OverflowError:
        total = math.inf
    if math.isfinite(total):
        return total
    _warn_infinite(name)
    return None


@cache
def _warn_infinite(name: str) -> None:
    """Warn once in a process that a function has infinite scores."""
    logger.warning("%s: a score is infinite; such completions have no reward (logged once)", name)


async def _call_part(part: PartFunction, keywords: Mapping[str, object], name: str) -> Scores:
    """Return a function's scores; NaN and infinite scores count as missing."""
    if inspect.iscoroutinefunction(part) or inspect.iscoroutinefunction(type(part).__call__):
        scores: object = part(**keywords)
    else:
        scores = await asyncio.to_thread(part, **keywords)
    if inspect.isawaitable(scores):  # also of an object with an async `__call__`
        scores = await scores
    part_scores = cast(Scores, scores)
    if any(value is not None and math.isinf(value) for value in part_scores):
        _warn_infinite(name)
    return [
        None if value is None or not math.isfinite(value) else float(value) for value in part_scores
    ]
