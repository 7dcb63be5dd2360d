"""The served weights: a copy of the trained model, swapped only between batches.

Trainer and endpoint are threads of one process. So publishing weights copies 0.6 MB of memory, no
batch is sampled with mixed weights, and the trainer can look up which version of the weights
sampled a rollout.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import torch

from examples.tiny_grpo.policy.model import ModelSize, TinyTransformer
from examples.tiny_grpo.policy.sampling import Prompt, SampledCompletion, sample

_REMEMBERED = 20_000  # completions whose version is kept


class ServedPolicy:
    """The model that the endpoint samples from.

    Attributes:
        size: its shape.
        version: how often weights were published; 0 for the first weights.
    """

    def __init__(self, size: ModelSize, *, seed: int) -> None:
        """Begin with the weights of a seed, which also seeds the samples."""
        self.size = size
        self.version = 0
        self._model = TinyTransformer(size, seed=seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._swapping = threading.Lock()
        self._versions: OrderedDict[SampledCompletion, int] = OrderedDict()

    def publish(self, trained: TinyTransformer) -> None:
        """Serve new weights from the next batch on."""
        with self._swapping:
            self._model.load_state_dict(trained.state_dict())
            self.version += 1

    def sample(self, prompts: Sequence[Prompt]) -> list[list[SampledCompletion]]:
        """Sample one batch, with one version of the weights."""
        with self._swapping:
            sampled: list[list[SampledCompletion]] = sample(self._model, prompts, self._generator)
            for completions in sampled:
                self._versions.update(dict.fromkeys(completions, self.version))
            while len(self._versions) > _REMEMBERED:
                self._versions.popitem(last=False)
        return sampled

    def find_version(self, completion: SampledCompletion) -> int:
        """Return the last version that has sampled a completion.

        Raises:
            ValueError: no version has: ids or logprobs differ.
        """
        try:
            return self._versions[completion]
        except KeyError:
            raise ValueError(
                f"the policy has not sampled {completion.text!r} with these ids and logprobs"
            ) from None
