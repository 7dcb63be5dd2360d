"""A sampled rollout (text, token ids, logprobs), and the interface of what samples rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from judgegym.engine.completions import Completion, Conversation
from judgegym.environments.rollouts.sequences import TokenSequence
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.errors import JudgeGymError


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
