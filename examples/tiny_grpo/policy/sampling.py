"""Sample completions from a model, as one batch, with the logprobs of their tokens.

A logprob is of the distribution that the token was drawn from, at the request's temperature, like
vLLM's `--logprobs-mode processed_logprobs`. At temperature 1 this equals vLLM's default
(`raw_logprobs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from examples.tiny_grpo.policy.model import TinyTransformer
from judgegym.offline.request import IM_END


@dataclass(frozen=True)
class Prompt:
    """A prompt, and how to complete it.

    Attributes:
        ids: the prompt's token ids, up to the beginning of the answer.
        completions: the number of completions.
        max_tokens: the most tokens of a completion.
        temperature: 0 takes the likeliest token.
    """

    ids: tuple[int, ...]
    completions: int
    max_tokens: int
    temperature: float


@dataclass(frozen=True)
class SampledCompletion:
    """A completion's token ids with logprobs; the last is `<|im_end|>` if the model stopped."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def stopped(self) -> bool:
        """Whether the model ended the completion, not the limit of its length."""
        return bool(self.ids) and self.ids[-1] == IM_END

    @property
    def text(self) -> str:
        """The text without the token that ends it."""
        return bytes(token for token in self.ids if token < 256).decode("utf-8", errors="replace")


@torch.inference_mode()
def sample(
    model: TinyTransformer, prompts: Sequence[Prompt], generator: torch.Generator | None = None
) -> list[list[SampledCompletion]]:
    """Return the completions of each prompt, in order."""
    counts = [prompt.completions for prompt in prompts]
    owners = [*chain.from_iterable([prompt] * prompt.completions for prompt in prompts)]
    limits = torch.tensor([prompt.max_tokens for prompt in owners])
    greedy = torch.tensor([prompt.temperature <= 0 for prompt in owners])
    heat = torch.tensor([prompt.temperature or 1.0 for prompt in owners])[:, None]
    logits, cache = model.begin([prompt.ids for prompt in prompts])
    logits = logits.repeat_interleave(torch.tensor(counts), dim=0)
    cache = cache.repeat(counts)
    drawn, logprobs = [], []
    open_ = torch.ones(len(owners), dtype=torch.bool)
    for length in range(1, int(limits.max()) + 1):
        distribution = torch.log_softmax(logits / heat, dim=-1)
        chosen = torch.multinomial(distribution.exp(), 1, generator=generator)[:, 0]
        chosen = torch.where(greedy, distribution.argmax(dim=-1), chosen)
        drawn.append(chosen)
        logprobs.append(distribution.gather(1, chosen[:, None])[:, 0])
        open_ = open_ & (chosen != IM_END) & (limits > length)
        if not open_.any():
            break
        logits, cache = model.step(chosen, cache)
    rows = zip(
        torch.stack(drawn, dim=1).tolist(),
        torch.stack(logprobs, dim=1).tolist(),
        owners,
        strict=True,
    )
    flat = iter([_cut(ids, values, prompt.max_tokens) for ids, values, prompt in rows])
    return [[next(flat) for _ in range(count)] for count in counts]


def _cut(ids: list[int], logprobs: list[float], longest: int) -> SampledCompletion:
    """Cut a row of the batch at its end."""
    end = min(longest, ids.index(IM_END) + 1 if IM_END in ids else len(ids))
    return SampledCompletion(tuple(ids[:end]), tuple(logprobs[:end]))
