"""A task to a scored group: G rollouts sampled in one request, judged at once, scored by one rule.

What happens to a rollout without a judgment is settled here: it is judged again; if that fails too, it gets the mean of
the others and no advantage; with fewer than two scored rollouts the group is dropped and counted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from environments.completions import Conversation
from environments.rollouts.sources import Rollout, lengths
from judges.core.judgment import CallRun, Judgment, Status
from judges.llm.wire import JSON

DetailT = TypeVar("DetailT")

DropReason = Literal["policy_failed", "judge_failed", "no_signal", "too_long", "timed_out", "refused", "pass_rate"]
_ROUNDING = 1e-9
ZERO_ADVANTAGE = "set_advantage_to_zero"


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The scores of a group: finite numbers; `substituted` are those that stand in for a failed judgment."""

    values: tuple[float, ...]
    substituted: tuple[bool, ...]

    @property
    def equal(self) -> bool:
        """Whether the group has no signal; numbers that differ by rounding alone are none."""
        return max(self.values) - min(self.values) <= _ROUNDING


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class JudgedGroup(Generic[DetailT]):
    """The rollouts of one conversation with their judgments.

    Attributes:
        conversation: what the policy was asked.
        rollouts: what it wrote, as it was sampled.
        judgments: one for each rollout.
        rewards: what each judgment is worth; `None` where the judge failed.
        policy_run: the sampling's latency and usage.
    """

    conversation: Conversation
    rollouts: tuple[Rollout, ...]
    judgments: tuple[Judgment[DetailT], ...]
    rewards: tuple[float | None, ...]
    policy_run: CallRun

    @property
    def scores(self) -> GroupScores | None:
        """The group's scores; `None` if fewer than two rollouts (or the one there is) have one."""
        return fill_in(self.rewards)


async def judge_group(
    rollouts: Sequence[Rollout],
    judge: Callable[[Rollout], Awaitable[Judgment[DetailT]]],
) -> list[Judgment[DetailT]]:
    """Judge all rollouts at once; those whose judge failed, once more."""

    async def one(rollout: Rollout) -> Judgment[DetailT]:
        judgment = await judge(rollout)
        if judgment.status in (Status.JUDGE_FAILED, Status.UNPARSABLE):
            again = await judge(rollout)
            return replace(again, calls=(*judgment.calls, *again.calls))  # both were paid for
        return judgment

    return list(await asyncio.gather(*(one(rollout) for rollout in rollouts)))


def fill_in(rewards: Sequence[float | None]) -> GroupScores | None:
    """Scores from rewards: a missing one becomes the mean of the others.

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
    # Equal rewards have themselves as their mean, whatever rounding would make of it: the group has no signal.
    mean = there[0] if len(set(there)) == 1 else math.fsum(there) / len(there)
    return GroupScores(
        tuple(mean if reward is None else float(reward) for reward in rewards),
        tuple(reward is None for reward in rewards),
    )


def scored_group(
    group: JudgedGroup[Any], scores: GroupScores, *, temperature: float, include_messages: bool
) -> dict[str, JSON]:
    """The group as the rollout API takes it.

    Keys: `tokens`, `masks` (G lists each, as long as one another), `scores` (G finite numbers), `inference_logprobs`
    where the source has them, `overrides` (one object for each rollout) where a score stands in for a failed judgment,
    `messages` with each judgment's explanation where they are asked for, `generation_params`. `group_overrides` is left
    out: Atropos calls `.get` on it.

    Source:
        atroposlib 0.4.0, `api/server.py` (ScoredData) and `example_trainer/data.py`.
    """
    sequences = [rollout.sequence for rollout in group.rollouts]
    data: dict[str, JSON] = {
        "tokens": [sequence.tokens for sequence in sequences],
        "masks": [sequence.mask for sequence in sequences],
        "scores": list(scores.values),
        "generation_params": {"temperature": temperature},
    }
    logprobs = [sequence.inference_logprobs for sequence in sequences]
    if all(each is not None for each in logprobs):
        data["inference_logprobs"] = [each for each in logprobs if each is not None]
    if any(scores.substituted):
        data["overrides"] = [{ZERO_ADVANTAGE: True} if substituted else {} for substituted in scores.substituted]
    if include_messages:
        data["messages"] = [
            _messages(group.conversation, rollout, judgment, score)
            for rollout, judgment, score in zip(group.rollouts, group.judgments, scores.values, strict=True)
        ]
    return data


def _messages(
    conversation: Conversation, rollout: Rollout, judgment: Judgment[Any], score: float
) -> list[dict[str, JSON]]:
    turns: list[dict[str, JSON]] = [
        {"role": message["role"], "content": message["content"]} for message in conversation
    ]
    answer: dict[str, JSON] = {
        "role": "assistant",
        "content": rollout.text,
        "reward": score,
        "judgment": {
            "status": judgment.status.value,
            "label": judgment.label,
            "explanation": judgment.explanation,
        },
    }
    return [*turns, answer]


def longest(group: JudgedGroup[Any]) -> int:
    """The longest sequence of a group, prompt included, in tokens."""
    return max(len(rollout.sequence.prompt) for rollout in group.rollouts) + max(lengths(group.rollouts))
