"""A group: the rollouts of one conversation with their tokens, judgments and scores.

`JudgedGroup.data` is the group in the format of the rollout API. A rollout whose judge failed gets
the mean score of the others and no advantage; with fewer than two scored rollouts the group has no
scores.

A rollout of several turns is one sequence if the prompt of each turn begins with the tokens of the
turn before it, sampled ones included. Otherwise, or with `reward_by=turn`, `JudgedGroup.posts`
makes one group per turn. Each of these groups has a sequence of every rollout: the rollout API
queues only groups of one size, and a trainer normalises the scores of a group. A rollout that ended
before a turn is represented by its last turn, without advantage.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Protocol, cast

from judgegym.engine.completions import Completion, Conversation, continue_conversation
from judgegym.engine.settings import EnvConfig
from judgegym.environments.rollouts.judging import GroupComparison
from judgegym.judges.core.group import MemberDetail
from judgegym.judges.core.judgment import CallRun, Judgment
from judgegym.llm import wire
from judgegym.llm.errors import JudgeGymError
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import exact_mean

MASKED = -100
PROMPT_LOGPROB = 1.0
"""Value that Atropos' trainers expect at the positions of the prompt."""
ZERO_ADVANTAGE = "set_advantage_to_zero"
_UNSAMPLED_LOGPROB = -9999.0
"""vLLM's value for minus infinity, which no sampled token has; a trainer's importance ratio would
be NaN."""
_HIGHEST_LOGPROB = 0.1
"""Upper bound of a logprob: above 0 by more than rounding."""
_ROUNDING = 1e-9
_TOKENS_FOR_A_THREAD = 32_768
"""Packing this many tokens takes two milliseconds; starting a thread takes a tenth of one."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A prompt and one completion as tokens.

    Attributes:
        prompt: the prompt's token ids, the generation prompt included.
        completion: the sampled ids; they end with the token that ends the turn only if the model
            stopped by itself.
        logprobs: one per completion token; `None` if the source has none.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...] | None

    @property
    def tokens(self) -> list[int]:
        """All token ids."""
        return [*self.prompt, *self.completion]

    @property
    def length(self) -> int:
        """Number of all tokens."""
        return len(self.prompt) + len(self.completion)


class MissingTokensError(JudgeGymError):
    """An endpoint did not return the sampled tokens that were requested."""


def find_token_fault(ids: Sequence[int] | None, logprobs: Sequence[float] | None) -> str | None:
    """Return why the sampled tokens of a completion cannot be trained on; `None` if they can."""
    if ids is None or logprobs is None:
        fields = (("token ids", ids), ("logprobs", logprobs))
        missing = " and ".join(name for name, value in fields if value is None)
        return f"a completion came without {missing}"
    if not ids:
        return "a completion came without a sampled token"
    id_count, logprob_count = len(ids), len(logprobs)
    if id_count != logprob_count:
        return f"a completion of {id_count} tokens came with {logprob_count} logprobs"
    for position, logprob in enumerate(logprobs):
        if not _UNSAMPLED_LOGPROB < logprob < _HIGHEST_LOGPROB:  # NaN is none of these
            return (
                f"token {position} of a completion has the logprob {logprob:g}, which no sampled "
                "token has"
            )
    return None


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout of a group: its last turn, and the turns before it.

    Attributes:
        completion: the completion to judge.
        sequence: the tokens to train on; its prompt holds all earlier turns.
        text: the assistant's turn as text.
        earlier: the turns before this one.
        failure: why it broke off; `None` if it has ended.
    """

    completion: Completion
    sequence: TokenSequence
    text: str
    earlier: tuple[Rollout, ...] = ()
    failure: str | None = None

    @property
    def turns(self) -> tuple[Rollout, ...]:
        """All turns, each with those before it."""
        return (*self.earlier, self)

    @property
    def completions(self) -> tuple[Completion, ...]:
        """The completion of each turn."""
        return tuple(turn.completion for turn in self.turns)

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens that the policy has sampled."""
        return sum(len(turn.sequence.completion) for turn in self.turns)

    @property
    def first_break(self) -> tuple[int, int] | None:
        """First turn that does not begin with the turn before, and the position there, in tokens.

        `None` if all turns do.
        """
        for number, (before, after) in enumerate(pairwise(turn.sequence for turn in self.turns), 2):
            tokens, prompt = before.tokens, list(after.prompt)
            if prompt[: len(tokens)] != tokens:
                for position, token in enumerate(prompt[: len(tokens)]):
                    if token != tokens[position]:
                        return number, position
                return number, len(prompt)
        return None


class RolloutSource(Protocol):
    """Source of rollouts."""

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """Sample `n` rollouts of one conversation.

        Raises:
            EndpointError: the policy never answered.
            MissingTokensError: the endpoint answered without the tokens that were requested.
        """

    async def decode(self, token: int) -> str | None:
        """Return the text of a token; `None` if no tokenizer is available."""

    @property
    def waiting(self) -> str | None:
        """Reason why all requests wait, such as an unreachable endpoint; `None` if they do not."""

    def rescale(self, share: float) -> None:
        """Use this share (0 to 1) of the policy's concurrency; the rollout API assigns it."""


@dataclass(frozen=True)  # no slots: its scores are computed once
class JudgedGroup:
    """Rollouts of one conversation with their judgments.

    Attributes:
        conversation: the policy's prompt.
        rollouts: the sampled completions.
        judgments: one per rollout; of equal completions only the first one's judgment has the
            calls.
        rewards: the reward of each judgment; `None` where the judge failed.
        policy_run: latency and usage of the requests to the policy.
        comparison: the comparison of its completions; `None` if each was judged by itself.
        by_turn: with `reward_by=turn`, the rewards of each turn, in the order of the rollouts.
        turn: in a group of one turn, its number from 1; only that turn of a rollout is trained.
        ended: in such a group, the rollouts that had ended before: their last turn is used, without
            advantage.
        user_runs: the calls of simulated users.
    """

    conversation: Conversation
    rollouts: tuple[Rollout, ...]
    judgments: tuple[Judgment[Any], ...]
    rewards: tuple[float | None, ...]
    policy_run: CallRun
    comparison: GroupComparison | None = None
    by_turn: tuple[tuple[float | None, ...], ...] | None = None
    turn: int | None = None
    ended: frozenset[int] = frozenset()
    user_runs: tuple[CallRun, ...] = ()

    @cached_property
    def turns(self) -> tuple[JudgedGroup, ...]:
        """Groups that are sent: this one, or one per turn."""
        if self.turn is not None or (
            self.by_turn is None and not any(member.first_break for member in self.rollouts)
        ):
            return (self,)
        turns = [rollout.turns for rollout in self.rollouts]
        return tuple(self._select_turn(turns, index) for index in range(max(map(len, turns))))

    def _select_turn(self, turns: Sequence[tuple[Rollout, ...]], index: int) -> JudgedGroup:
        """Return the group of one turn, from the turns of all rollouts."""
        return replace(
            self,
            rollouts=tuple(
                rollout_turns[min(index, len(rollout_turns) - 1)] for rollout_turns in turns
            ),
            rewards=self.rewards if self.by_turn is None else self.by_turn[index],
            by_turn=None,
            turn=index + 1,
            ended=frozenset(
                number for number, rollout_turns in enumerate(turns) if len(rollout_turns) <= index
            ),
        )

    def posts(self, config: EnvConfig) -> list[JudgedGroup]:
        """Return the groups of `turns` that have scores.

        With `ensure_scores_are_not_same`, only those with different scores.
        """
        scored = [group for group in self.turns if group.scores is not None]
        if config.ensure_scores_are_not_same:
            return [group for group in scored if not group.has_equal_scores]
        return scored

    @cached_property
    def scores(self) -> tuple[float, ...] | None:
        """Scores; `None` if fewer than two rollouts (in a group of one: none) have a reward."""
        return fill_missing_scores(self.rewards)

    @property
    def has_equal_scores(self) -> bool:
        """Whether all scores are equal up to rounding, so that the group has no signal."""
        if self.by_turn is not None and self.scores is not None:
            return all(turn.scores is None or turn.has_equal_scores for turn in self.turns)
        return self.scores is not None and max(self.scores) - min(self.scores) <= _ROUNDING

    @property
    def is_flat(self) -> bool:
        """Whether the group teaches nothing: equal scores, or nothing to compare."""
        return self.has_equal_scores or (self.comparison is not None and self.comparison.is_alone)

    @property
    def longest(self) -> int:
        """Length of the longest sequence in tokens, prompt included."""
        turns = chain.from_iterable(rollout.turns for rollout in self.rollouts)
        return max(turn.sequence.length for turn in turns)

    def data(self, config: EnvConfig, row: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
        """Return the group, which must have scores, in the format of the rollout API.

        Keys: `tokens` and `masks` (G lists each, of equal lengths), `scores` (G finite numbers),
        `inference_logprobs` if the source has them, `overrides` (one object per rollout) if a
        score is substituted, `messages` with each judgment's explanation (and a group judge's
        `looks`) if requested, `generation_params`. `group_overrides` is left out: Atropos calls
        `.get` on it.

        Args:
            config: tells whether messages are requested.
            row: the row of the group in a file; it goes with its messages, and with the turn of a
                group of one turn. No trainer needs it.

        Source:
            atroposlib 0.4.0, `api/server.py` (ScoredData) and `example_trainer/data.py`.
        """
        assert self.scores is not None
        trained: list[tuple[Rollout, ...]] = [(rollout,) for rollout in self.rollouts]
        if self.turn is None:
            trained = [rollout.turns for rollout in self.rollouts]
        data: dict[str, JSON] = {
            "tokens": [turns[-1].sequence.tokens for turns in trained],
            "masks": [
                _place_values(turns, [turn.sequence.completion for turn in turns], MASKED)
                for turns in trained
            ],
            "scores": list(self.scores),
            "generation_params": {"temperature": config.rollout_temperature},
        }
        if all(turn.sequence.logprobs is not None for turn in chain.from_iterable(trained)):
            logprobs = [[turn.sequence.logprobs or () for turn in turns] for turns in trained]
            data["inference_logprobs"] = [
                _place_values(turns, values, PROMPT_LOGPROB)
                for turns, values in zip(trained, logprobs, strict=True)
            ]
        if None in self.rewards or self.ended:
            overrides: list[dict[str, JSON]] = [{} for _ in self.rewards]
            for number, reward in enumerate(self.rewards):
                if reward is None or number in self.ended:
                    overrides[number][ZERO_ADVANTAGE] = True
            data["overrides"] = cast("JSON", overrides)
        if config.include_messages:
            data["messages"] = [
                self._messages(rollout, judgment, score)
                for rollout, judgment, score in zip(
                    self.rollouts, self.judgments, self.scores, strict=True
                )
            ]
            if row is not None:
                turn_fields: dict[str, JSON] = {}
                if self.turn is not None:
                    turn_fields = {"turn": self.turn, "ended": sorted(self.ended)}
                data["row"] = {**row, **turn_fields, **self._comparison()}
        return data

    def _messages(
        self, rollout: Rollout, judgment: Judgment[Any], score: float
    ) -> list[dict[str, JSON]]:
        judged: dict[str, JSON] = {
            "status": judgment.status.value,
            "label": judgment.label,
            "explanation": judgment.explanation,
        }
        if isinstance(judgment.detail, MemberDetail):
            judged |= {
                "own": judgment.detail.own,
                "looks": [look._asdict() for look in judgment.detail.looks],
            }
        turns: list[dict[str, JSON]] = [
            {"role": message["role"], "content": message["content"]}
            for message in continue_conversation(self.conversation, rollout.completions)[:-1]
        ]
        return [
            *turns,
            {"role": "assistant", "content": rollout.text, "reward": score, "judgment": judged},
        ]

    def _comparison(self) -> dict[str, JSON]:
        """Return the judge that compared the group, and the comparison's numbers.

        Empty without one.
        """
        comparison = self.comparison
        if comparison is None:
            return {}
        return {
            "together": {
                "judge": comparison.judge,
                "anchored": comparison.anchored,
                "orders_agreed": comparison.orders.agreed,
                "orders_pairs": comparison.orders.pairs,
                "calls": comparison.calls,
                "is_again": comparison.is_again,
            }
        }

    async def pack(self, config: EnvConfig, row: Mapping[str, JSON] | None = None) -> bytes:
        """Return `data` as JSON bytes; a group of many tokens is packed in a thread."""
        if sum(rollout.sequence.length for rollout in self.rollouts) < _TOKENS_FOR_A_THREAD:
            return pack_group(self.data(config, row))
        return await asyncio.to_thread(lambda: pack_group(self.data(config, row)))


def _place_values(
    turns: Sequence[Rollout], sampled: Sequence[Sequence[float]], fill: float
) -> list[JSON]:
    """Return a value per token of turns that are one sequence: `fill` for unsampled tokens."""
    values: list[JSON] = [fill] * turns[-1].sequence.length
    for turn, turn_values in zip(turns, sampled, strict=True):
        start = len(turn.sequence.prompt)
        values[start : start + len(turn_values)] = turn_values
    return values


def fill_missing_scores(rewards: Sequence[float | None]) -> tuple[float, ...] | None:
    """Make scores from rewards: a missing reward becomes the mean of the others.

    Returns:
        The scores; `None` with fewer than two rewards (fewer than one in a group of one).

    Raises:
        ValueError: a reward is not finite. The rollout API would accept such a score and then fail
            the trainer's next batch.
    """
    present = [reward for reward in rewards if reward is not None]
    if not all(math.isfinite(reward) for reward in present):
        raise ValueError(f"a reward is not a finite number: {rewards}")
    if not present or len(present) < min(2, len(rewards)):
        return None
    mean = exact_mean(present)
    return tuple(mean if reward is None else float(reward) for reward in rewards)


def pack_group(group: Mapping[str, JSON]) -> bytes:
    """Return the same JSON as `wire.dumps`, made in pieces so that other threads run in between."""
    fields = [b"%b:%b" % (wire.dumps(name), _pack_value(value)) for name, value in group.items()]
    return b"{%b}" % b",".join(fields)


def _pack_value(value: JSON) -> bytes:
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(wire.dumps, value))
    return wire.dumps(value)
