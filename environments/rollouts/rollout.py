"""A rollout as it was sampled: text, token ids and logprobs; and what gives rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from environments.completions import Completion, Conversation
from environments.rollouts.sequences import TokenSequence
from judges.core.judgment import CallRun
from judges.llm.errors import JudgeGymError


class NoTokens(JudgeGymError):
    """An endpoint that was to return the sampled tokens did not."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a group: what was judged, what is trained on, and the assistant's turn as text."""

    completion: Completion
    sequence: TokenSequence
    text: str


class RolloutSource(Protocol):
    """Where rollouts come from."""

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """`n` rollouts of one conversation.

        Raises:
            EndpointError: the policy never answered.
            NoTokens: it answered without the tokens that it was asked for.
        """

    def rescale(self, share: float) -> None:
        """Use a share, from 0 to 1, of the policy's concurrency, as the rollout API says."""


def lengths(rollouts: Sequence[Rollout]) -> list[int]:
    """Completion lengths in tokens."""
    return [len(rollout.sequence.completion) for rollout in rollouts]
