"""A prompt and a completion as tokens, with the mask and the logprobs in the form that Atropos' trainers expect."""

from __future__ import annotations

from dataclasses import dataclass

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
