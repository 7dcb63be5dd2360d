"""The numbers of a batch's rollouts, before the trainer pads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from statistics import fmean, pstdev

from examples.rollout_api import Batch
from examples.tiny_grpo.judge import letter_share
from examples.tiny_grpo.policy.sampling import SampledCompletion
from examples.tiny_grpo.policy.served import ServedPolicy
from judgegym.judges.parsing import thinking

_MASKED = -100  # atroposlib's mask of the prompt
_EQUAL = 1e-9
_NO_ADVANTAGE = "set_advantage_to_zero"


@dataclass(frozen=True)
class BatchNumbers:
    """Means over the rollouts of a batch; `curve.Step` explains the names."""

    reward: float
    letter_share: float
    well_formed: float
    length: float
    group_std: float
    masked: float
    staleness: float
    group_size: float
    without_signal: float


def iter_completions(batch: Batch) -> Iterator[SampledCompletion]:
    """Yield the policy's completions, rollout by rollout and turn by turn."""
    for group in batch:
        for masks, logprobs in zip(group["masks"], group["inference_logprobs"], strict=True):
            for is_prompt, places in groupby(
                zip(masks, logprobs, strict=True), lambda place: place[0] == _MASKED
            ):
                if not is_prompt:
                    yield SampledCompletion(*zip(*places, strict=True))


def compute_numbers(
    batch: Batch, policy: ServedPolicy, letter: str | None, *, thinks: bool = False
) -> BatchNumbers:
    """Return the numbers of a batch; if a policy thinks, the letter's share is of its answers.

    A completion without an answer (empty, or malformed thinking) has a share of 0.

    Raises:
        ValueError: the policy has not sampled a completion: its tokens or logprobs were changed
            on the way.
    """
    completions = list(iter_completions(batch))
    answers = [_answer(completion.text, thinks=thinks) for completion in completions]
    scores = [[float(score) for score in group["scores"]] for group in batch]
    overrides = chain.from_iterable(group.get("overrides") or [] for group in batch)
    masked = [bool(override.get(_NO_ADVANTAGE)) for override in overrides]
    return BatchNumbers(
        reward=fmean(chain.from_iterable(scores)),
        letter_share=fmean(letter_share(answer, letter) for answer in answers) if letter else 0.0,
        well_formed=fmean(bool(answer) for answer in answers),
        length=fmean(len(completion.ids) for completion in completions),
        group_std=fmean(pstdev(group) for group in scores),
        masked=sum(masked) / sum(map(len, scores)),
        group_size=fmean(len(group) for group in scores),
        without_signal=fmean(max(group) - min(group) < _EQUAL for group in scores),
        staleness=fmean(
            policy.version - policy.find_version(completion) for completion in completions
        ),
    )


def _answer(text: str, *, thinks: bool) -> str:
    """Return what a judge is shown of a completion; empty if nothing."""
    if not thinks:
        return text.strip()
    parts = thinking.split(text)
    if parts.valid:
        return parts.answer
    return ""
