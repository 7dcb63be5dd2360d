"""A judged group: the rollouts of one conversation, their judgments, and their scores.

A rollout whose judge failed gets the mean score of the others and no advantage; with fewer than two scored rollouts the
group has no scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from judgegym.engine.completions import Conversation
from judgegym.environments.rollouts.judged_together import GroupComparison
from judgegym.environments.rollouts.rollout import Rollout, lengths
from judgegym.judges.core.judgment import CallRun, Judgment
from judgegym.statistics.exact_mean import exact_mean

DetailT = TypeVar("DetailT")

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class GroupRewards:
    """The scores of a group, finite numbers; `substituted` marks those of rollouts whose judge failed."""

    values: tuple[float, ...]
    substituted: tuple[bool, ...]

    @property
    def equal(self) -> bool:
        """Return whether all scores are equal up to rounding, so that the group has no signal."""
        return max(self.values) - min(self.values) <= _ROUNDING


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class JudgedGroup(Generic[DetailT]):
    """The rollouts of one conversation with their judgments.

    Attributes:
        conversation: the policy's prompt.
        rollouts: the sampled completions.
        judgments: one for each rollout; of equal completions, the calls are in that of the first alone.
        rewards: the reward of each judgment; `None` where the judge failed.
        policy_run: latency and usage of the request to the policy.
        together: how its completions were judged against each other; `None` if each was judged by itself.
    """

    conversation: Conversation
    rollouts: tuple[Rollout, ...]
    judgments: tuple[Judgment[DetailT], ...]
    rewards: tuple[float | None, ...]
    policy_run: CallRun
    together: GroupComparison | None = None

    @property
    def scores(self) -> GroupRewards | None:
        """Return the scores; `None` if fewer than two rollouts (in a group of one: none) have a reward."""
        return fill_in(self.rewards)


def fill_in(rewards: Sequence[float | None]) -> GroupRewards | None:
    """Make scores of rewards: a missing one becomes the mean of the others.

    Returns:
        `None` if fewer than two rewards are there (fewer than one in a group of one).

    Raises:
        ValueError: a reward is not finite: the rollout API takes such a score and then fails the trainer's next batch.
    """
    there = [reward for reward in rewards if reward is not None]
    if not all(math.isfinite(reward) for reward in there):
        raise ValueError(f"a reward is not a finite number: {rewards}")
    if not there or len(there) < min(2, len(rewards)):
        return None
    mean = exact_mean(there)
    return GroupRewards(
        tuple(mean if reward is None else float(reward) for reward in rewards),
        tuple(reward is None for reward in rewards),
    )


def tokens(group: JudgedGroup[Any]) -> int:
    """Return the number of tokens of a group, prompts included."""
    return sum(len(rollout.sequence.prompt) + len(rollout.sequence.completion) for rollout in group.rollouts)


def longest(group: JudgedGroup[Any]) -> int:
    """Return the length of the longest sequence of a group in tokens, prompt included."""
    return max(len(rollout.sequence.prompt) for rollout in group.rollouts) + max(lengths(group.rollouts))
