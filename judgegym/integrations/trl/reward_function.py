"""A reward function as TRL calls it, and what it logs of its results."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, cast

from judgegym.integrations.scores.requests import Conversation
from judgegym.integrations.scores.results import CompletionReward
from judgegym.integrations.trl.trainer import check_sum, trainer_of


class RewardFunction(Protocol):
    """A reward function as TRL calls it, once for each batch."""

    __name__: str

    async def __call__(
        self, prompts: Sequence[Conversation], completions: Sequence[Conversation], **columns: object
    ) -> list[float | None]:
        """A score for each completion; `None` if there is none."""


def named(
    score: Callable[..., Awaitable[list[float | None]]],
    name: str,
    close: Callable[[], Awaitable[None]],
    *,
    rows_of: str | None = None,
) -> RewardFunction:
    """The function under the name that TRL logs; an error, which ends the training, closes what is open.

    Args:
        score: gives the scores of a batch.
        name: the function's name.
        close: closes what `score` has opened.
        rows_of: the environment whose rows alone it scores, by their column `environment`; `None`: it scores all rows.
    """

    async def reward(
        prompts: Sequence[Conversation], completions: Sequence[Conversation], **columns: object
    ) -> list[float | None]:
        try:
            check_sum(trainer_of(columns), reward, columns)
            return await score(prompts, completions, columns)
        except BaseException:  # any error, also a cancellation: TRL tells nobody that the training has ended
            await close()
            raise

    reward.__name__ = name
    reward.close = close  # type: ignore[attr-defined]  # read by `close`
    reward.rows_of = rows_of  # type: ignore[attr-defined]  # read by `check_sum`
    return reward


async def close(reward: RewardFunction) -> None:
    """Close the connections of a reward function now; otherwise they are closed when the training ends."""
    await cast("Callable[[], Awaitable[None]]", reward.close)()  # type: ignore[attr-defined]  # set by `named`


def log(results: Sequence[CompletionReward | None], columns: Mapping[str, object], name: str) -> None:
    """Log explanations, statuses, and the shares of failures and of empty completions, where TRL passes loggers.

    Args:
        results: one for each completion; `None` for those that are others' to judge, which are in no share.
        columns: the keywords of the call.
        name: what the names of columns and metrics begin with.
    """
    extra, metric = columns.get("log_extra"), columns.get("log_metric")
    if callable(extra):
        extra(f"{name}_explanation", [None if result is None else result.explanation for result in results])
        extra(f"{name}_status", [None if result is None else result.status for result in results])
    own = [result for result in results if result is not None]
    if callable(metric) and own:
        log_metric = cast("Callable[[str, float], None]", metric)
        log_metric(f"{name}_failed", sum(result.is_failed for result in own) / len(own))
        log_metric(f"{name}_invalid", sum(result.is_invalid for result in own) / len(own))


def log_means(metrics: Sequence[Mapping[str, float]], columns: Mapping[str, object], name: str) -> None:
    """Log the mean of each metric over the completions that have it, as `name/metric`, where TRL passes a logger."""
    metric = columns.get("log_metric")
    if callable(metric):
        for key in sorted({key for of_one in metrics for key in of_one}):
            values = [of_one[key] for of_one in metrics if key in of_one]
            metric(f"{name}/{key}", math.fsum(values) / len(values))


__all__ = ["RewardFunction", "close", "log", "log_means", "named"]
