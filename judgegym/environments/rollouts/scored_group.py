"""Convert a judged group to what the rollout API takes.

A prompt and a completion as tokens, with the mask and the logprobs in the form that Atropos' trainers expect.

A sampled rollout (text, token ids, logprobs), and the interface of what samples rollouts.

A judged group: the rollouts of one conversation, their judgments, and their scores.

A rollout whose judge failed gets the mean score of the others and no advantage; with fewer than two scored rollouts the
group has no scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from judgegym.engine.completions import Completion, Conversation
from judgegym.environments.rollouts.judging import GroupComparison
from judgegym.judges.core.group import MemberDetail
from judgegym.judges.core.judgment import CallRun, Judgment
from judgegym.llm import wire
from judgegym.llm.errors import JudgeGymError
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import exact_mean

MASKED = -100
PROMPT_LOGPROB = 1.0
"""What Atropos' trainers expect at the positions of the prompt."""


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

    @property
    def mask(self) -> list[int]:
        """−100 on the prompt, the ids themselves on the completion."""
        return [*[MASKED] * len(self.prompt), *self.completion]

    @property
    def inference_logprobs(self) -> list[float] | None:
        """1.0 on the prompt, the sampled logprobs on the completion."""
        if self.logprobs is None:
            return None
        return [*[PROMPT_LOGPROB] * len(self.prompt), *self.logprobs]


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


def lengths(rollouts: Sequence[Rollout]) -> list[int]:
    """Return the lengths of the completions in tokens."""
    return [len(rollout.sequence.completion) for rollout in rollouts]


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


ZERO_ADVANTAGE = "set_advantage_to_zero"


@dataclass(frozen=True, slots=True)
class RowOfGroup:
    """The row of a group in a file, which no trainer needs.

    Attributes:
        uid: the row's id.
        group: the group's number in the ledger of calls; those of dropped groups are missing in the file.
        category: the row's category.
        question: what the policy was asked, as a person reads it.
        texts: the row's texts beside the question, by title.
    """

    uid: str
    group: int
    category: str | None
    question: str
    texts: Mapping[str, str]

    def to_json(self, together: GroupComparison | None = None) -> dict[str, JSON]:
        """Return the fields as they are written; with `together`, which judge compared the group, and how it went."""
        row: dict[str, JSON] = {
            "uid": self.uid,
            "group": self.group,
            "category": self.category,
            "question": self.question,
            "texts": dict(self.texts),
        }
        if together is not None:
            row["together"] = {
                "judge": together.judge,
                "anchored": together.anchored,
                "orders_agreed": together.orders.agreed,
                "orders_pairs": together.orders.pairs,
                "calls": together.calls,
                "is_again": together.is_again,
            }
        return row


def scored_group(
    group: JudgedGroup[Any], scores: GroupRewards, *, temperature: float, include_messages: bool
) -> dict[str, JSON]:
    """Return the group as the rollout API takes it.

    Keys: `tokens` and `masks` (G lists each, of equal lengths), `scores` (G finite numbers), `inference_logprobs` if
    the source has them, `overrides` (one object for each rollout) if a score is substituted, `messages` with each
    judgment's explanation (and, of a judge of groups, its `looks`) if they are asked for, `generation_params`.
    `group_overrides` is left out: Atropos calls `.get` on it.

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
    if None not in logprobs:
        data["inference_logprobs"] = logprobs
    if any(scores.substituted):
        data["overrides"] = [{ZERO_ADVANTAGE: True} if substituted else {} for substituted in scores.substituted]
    if include_messages:
        data["messages"] = [
            _messages(group.conversation, rollout, judgment, score)
            for rollout, judgment, score in zip(group.rollouts, group.judgments, scores.values, strict=True)
        ]
    return data


def packed(group: Mapping[str, JSON]) -> bytes:
    """Return the same JSON as `wire.dumps`, made in pieces: in a thread, the other threads run between them."""
    fields = []
    for name, value in group.items():
        pieces = b"[%b]" % b",".join(map(wire.dumps, value)) if isinstance(value, list) else wire.dumps(value)
        fields.append(b"%b:%b" % (wire.dumps(name), pieces))
    return b"{%b}" % b",".join(fields)


def _messages(
    conversation: Conversation, rollout: Rollout, judgment: Judgment[Any], score: float
) -> list[dict[str, JSON]]:
    turns: list[dict[str, JSON]] = [
        {"role": message["role"], "content": message["content"]} for message in conversation
    ]
    judged: dict[str, JSON] = {
        "status": judgment.status.value,
        "label": judgment.label,
        "explanation": judgment.explanation,
    }
    if isinstance(judgment.detail, MemberDetail):
        judged |= {"own": judgment.detail.own, "looks": [look._asdict() for look in judgment.detail.looks]}
    answer: dict[str, JSON] = {"role": "assistant", "content": rollout.text, "reward": score, "judgment": judged}
    return [*turns, answer]
