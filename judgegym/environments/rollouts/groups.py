"""A group: the rollouts of one conversation with their tokens, their judgments and their scores.

`roll_out` makes it of a row; `JudgedGroup.data` is the group as the rollout API takes it. A rollout whose judge failed
gets the mean score of the others and no advantage; with fewer than two scored rollouts the group has no scores.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from judgegym.data.rows import TaskT
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.settings import EnvConfig
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.judging import GroupComparison, judge_completions_of
from judgegym.judges.core.group import MemberDetail
from judgegym.judges.core.judgment import CallRun, Judgment
from judgegym.llm import wire
from judgegym.llm.errors import DataError, JudgeGymError
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import exact_mean

MASKED = -100
PROMPT_LOGPROB = 1.0
"""What Atropos' trainers expect at the positions of the prompt."""
ZERO_ADVANTAGE = "set_advantage_to_zero"
_ROUNDING = 1e-9
_TOKENS_FOR_A_THREAD = 32_768
"""Packing so many takes two milliseconds; a thread takes a tenth of one."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A prompt and one completion, as tokens.

    Attributes:
        prompt: the prompt's token ids, the generation prompt included.
        completion: the sampled ids; the token that ends the turn among them only if the model stopped by itself.
        logprobs: one for each completion token; `None` if the source has none.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...] | None

    @property
    def tokens(self) -> list[int]:
        """All token ids."""
        return [*self.prompt, *self.completion]


class NoTokens(JudgeGymError):
    """An endpoint did not return the sampled tokens that it was asked for."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a group: the completion to judge, the tokens to train on, the assistant's turn as text."""

    completion: Completion
    sequence: TokenSequence
    text: str


class RolloutSource(Protocol):
    """Samples rollouts."""

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """Sample `n` rollouts of one conversation.

        Raises:
            EndpointError: the policy never answered.
            NoTokens: it answered without the tokens that it was asked for.
        """

    @property
    def waiting(self) -> str | None:
        """What all requests wait for, such as an endpoint that refuses connections; `None` otherwise."""

    def rescale(self, share: float) -> None:
        """Use this share (0 to 1) of the policy's concurrency; the rollout API assigns it."""


@dataclass(frozen=True)  # no slots: its scores are computed once
class JudgedGroup:
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
    judgments: tuple[Judgment[Any], ...]
    rewards: tuple[float | None, ...]
    policy_run: CallRun
    together: GroupComparison | None = None

    @cached_property
    def scores(self) -> tuple[float, ...] | None:
        """Return the scores; `None` if fewer than two rollouts (in a group of one: none) have a reward."""
        return fill_in(self.rewards)

    @property
    def has_equal_scores(self) -> bool:
        """Return whether all scores are equal up to rounding, so that the group has no signal."""
        return self.scores is not None and max(self.scores) - min(self.scores) <= _ROUNDING

    @property
    def is_flat(self) -> bool:
        """Return whether it teaches nothing: its scores are equal, or there was nothing to compare."""
        return self.has_equal_scores or (self.together is not None and self.together.is_alone)

    @property
    def longest(self) -> int:
        """Return the length of the longest sequence in tokens, prompt included."""
        sequences = [rollout.sequence for rollout in self.rollouts]
        return max(len(each.prompt) for each in sequences) + max(len(each.completion) for each in sequences)

    def data(self, config: EnvConfig, row: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
        """Return the group, which has scores, as the rollout API takes it.

        Keys: `tokens` and `masks` (G lists each, of equal lengths), `scores` (G finite numbers), `inference_logprobs`
        if the source has them, `overrides` (one object for each rollout) if a score is substituted, `messages` with
        each judgment's explanation (and, of a judge of groups, its `looks`) if they are asked for,
        `generation_params`. `group_overrides` is left out: Atropos calls `.get` on it.

        Args:
            config: says whether messages are asked for.
            row: the row of the group in a file, which no trainer needs; it goes with its messages.

        Source:
            atroposlib 0.4.0, `api/server.py` (ScoredData) and `example_trainer/data.py`.
        """
        assert self.scores is not None
        sequences = [rollout.sequence for rollout in self.rollouts]
        data: dict[str, JSON] = {
            "tokens": [sequence.tokens for sequence in sequences],
            "masks": [[*[MASKED] * len(each.prompt), *each.completion] for each in sequences],
            "scores": list(self.scores),
            "generation_params": {"temperature": config.rollout_temperature},
        }
        logprobs = [
            [*[PROMPT_LOGPROB] * len(each.prompt), *each.logprobs] for each in sequences if each.logprobs is not None
        ]
        if len(logprobs) == len(sequences):
            data["inference_logprobs"] = logprobs
        if None in self.rewards:
            data["overrides"] = [{ZERO_ADVANTAGE: True} if reward is None else {} for reward in self.rewards]
        if config.include_messages:
            data["messages"] = [
                self._messages(rollout, judgment, score)
                for rollout, judgment, score in zip(self.rollouts, self.judgments, self.scores, strict=True)
            ]
            if row is not None:
                data["row"] = {**row, **self._comparison()}
        return data

    def _messages(self, rollout: Rollout, judgment: Judgment[Any], score: float) -> list[dict[str, JSON]]:
        judged: dict[str, JSON] = {
            "status": judgment.status.value,
            "label": judgment.label,
            "explanation": judgment.explanation,
        }
        if isinstance(judgment.detail, MemberDetail):
            judged |= {"own": judgment.detail.own, "looks": [look._asdict() for look in judgment.detail.looks]}
        turns: list[dict[str, JSON]] = [
            {"role": message["role"], "content": message["content"]} for message in self.conversation
        ]
        return [*turns, {"role": "assistant", "content": rollout.text, "reward": score, "judgment": judged}]

    def _comparison(self) -> dict[str, JSON]:
        """Return which judge compared the group, and how it went; nothing if none did."""
        together = self.together
        if together is None:
            return {}
        orders: dict[str, JSON] = {"orders_agreed": together.orders.agreed, "orders_pairs": together.orders.pairs}
        which: dict[str, JSON] = {"judge": together.judge, "anchored": together.anchored}
        return {"together": {**which, **orders, "calls": together.calls, "is_again": together.is_again}}

    async def packed(self, config: EnvConfig, row: Mapping[str, JSON] | None = None) -> bytes:
        """Return `data` as JSON; a group of many tokens is packed in a thread."""
        sequences = [rollout.sequence for rollout in self.rollouts]
        if sum(len(each.prompt) + len(each.completion) for each in sequences) < _TOKENS_FOR_A_THREAD:
            return packed(self.data(config, row))
        return await asyncio.to_thread(lambda: packed(self.data(config, row)))


async def roll_out(env: JudgedEnv[Any, TaskT, Any], source: RolloutSource, task: TaskT) -> JudgedGroup:
    """Sample `group_size` completions of a row's first conversation in one request, and judge them at once.

    Each is judged by itself, or, with a judge of groups, all of them against each other.

    Raises:
        DataError: the conversation has images.
        EndpointError: the policy never answered.
        NoTokens: it answered without the tokens that it was asked for.
    """
    conversation = env.checked_conversations(task)[0]
    if any(message.get("images") for message in conversation):
        raise DataError(
            f"row {task.uid}: it has images, and rollouts are texts; leave such rows out of the training data"
        )
    rollouts, policy_run = await source.sample(conversation, env.config.group_size)
    completions = [rollout.completion for rollout in rollouts]
    judgments, rewards, together = await judge_completions_of(env, task, completions)
    return JudgedGroup(conversation, tuple(rollouts), judgments, rewards, policy_run, together)


def fill_in(rewards: Sequence[float | None]) -> tuple[float, ...] | None:
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
    return tuple(mean if reward is None else float(reward) for reward in rewards)


def packed(group: Mapping[str, JSON]) -> bytes:
    """Return the same JSON as `wire.dumps`, made in pieces: in a thread, the other threads run between them."""
    fields = []
    for name, value in group.items():
        pieces = b"[%b]" % b",".join(map(wire.dumps, value)) if isinstance(value, list) else wire.dumps(value)
        fields.append(b"%b:%b" % (wire.dumps(name), pieces))
    return b"{%b}" % b",".join(fields)
