"""One reward function of several: their weighted sum, or `None` if any of them has no score.

TRL adds the scores of several reward functions and leaves `None` out of the sum, so that a failed judge counts as a
score of 0 beside the others' scores. The combined function leaves such a completion out of the group instead.

Source: TRL 1.16.0, `GRPOTrainer._calculate_rewards`, `._generate_and_score_completions` (`nansum`).
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from judgegym.integrations.scores.requests import Conversation
from judgegym.integrations.scores.results import check_finite
from judgegym.integrations.trl.reward_function import RewardFunction, close, named
from judgegym.llm.errors import SettingsError

Part = Callable[..., "Sequence[float | None] | Awaitable[Sequence[float | None]]"]
"""A reward function of TRL, ours or another; sync or async."""
Scores = list["float | None"]


def combined_reward(
    functions: Sequence[Part], *, weights: Sequence[float] | None = None, name: str = "combined"
) -> RewardFunction:
    """Make one reward function of several.

    The score of a completion is the weighted sum of the parts' scores, and `None` if any part has none (`None` or NaN).
    TRL's log has `rewards/PART/mean` for each part, and the table of completions a column for each.

    Args:
        functions: reward functions as TRL calls them, sync or async. Sync ones are called in a thread.
        weights: a finite factor for each function, by default 1.
        name: the function's name, under which TRL logs it.

    Raises:
        SettingsError: there are no functions, two have one name, the weights do not fit, or two functions are of
            different environments, which have no row in common.
    """
    parts = list(functions)
    names = [_name_of(part) for part in parts]
    if not parts or len({*names, name}) != len(names) + 1:
        raise SettingsError(
            f"functions: expected functions with names of their own, found {', '.join(names) or 'none'}"
        )
    factors = [1.0] * len(parts) if weights is None else [float(weight) for weight in weights]
    if len(factors) != len(parts):
        raise SettingsError(f"weights: expected one for each of {len(parts)} functions, found {len(factors)}")
    check_finite(**{f"weight of {part}": factor for part, factor in zip(names, factors, strict=True)})
    environments = {of for part in parts if (of := getattr(part, "rows_of", None)) is not None}
    if len(environments) > 1:
        raise SettingsError(
            f"functions: expected those of one environment, found {', '.join(sorted(environments))}; combine each with "
            "what else judges its rows"
        )

    async def score(
        prompts: Sequence[Conversation], completions: Sequence[Conversation], columns: Mapping[str, object]
    ) -> Scores:
        by_part = await asyncio.gather(
            *(_called(part, {"prompts": prompts, "completions": completions, **columns}) for part in parts)
        )
        for part, scores in zip(names, by_part, strict=True):
            if len(scores) != len(completions):
                raise SettingsError(f"{part}: expected {len(completions)} scores, found {len(scores)}")
            _log(part, scores, columns)
        return [
            None
            if any(value is None for value in of_one)
            else math.fsum(factor * cast(float, value) for factor, value in zip(factors, of_one, strict=True))
            for of_one in zip(*by_part, strict=True)
        ]

    async def close_parts() -> None:
        for part in parts:
            if hasattr(part, "close"):
                await close(cast(RewardFunction, part))

    return named(score, name, close_parts, rows_of=next(iter(environments), None))


async def _called(part: Part, keywords: Mapping[str, object]) -> Scores:
    """The scores of a function; NaN is none."""
    if inspect.iscoroutinefunction(part):
        scores: object = part(**keywords)
    else:
        scores = await asyncio.to_thread(part, **keywords)
    if inspect.isawaitable(scores):  # also of an object with an async `__call__`
        scores = await scores
    return [None if value is None or math.isnan(value) else float(value) for value in cast(Scores, scores)]


def _log(name: str, scores: Scores, columns: Mapping[str, object]) -> None:
    """Log a part under the names that TRL gives to a function of its own, where TRL passes loggers."""
    extra, metric = columns.get("log_extra"), columns.get("log_metric")
    there = [value for value in scores if value is not None]
    if callable(extra):
        extra(name, scores)
    if callable(metric) and there:
        metric(f"rewards/{name}/mean", math.fsum(there) / len(there))


def _name_of(part: Part) -> str:
    return str(getattr(part, "__name__", type(part).__name__))


__all__ = ["combined_reward"]
