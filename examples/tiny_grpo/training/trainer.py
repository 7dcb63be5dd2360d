"""GRPO on batches of the rollout API, with the loss of Atropos' example trainer and Adam.

Padding, advantages and loss are imported from the example trainer (`example_trainer` of atroposlib
0.4.0). The loop is ours: take a batch, make one step of the optimizer, serve the new weights, and
record the step.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from example_trainer.data import pad_data_to_good_offset
from example_trainer.training import compute_grpo_loss

from examples.rollout_api import Batch, RolloutApi
from examples.tiny_grpo.curve import Step
from examples.tiny_grpo.policy.model import TinyTransformer
from examples.tiny_grpo.policy.served import ServedPolicy
from examples.tiny_grpo.training.batches import compute_numbers
from examples.tiny_grpo.training.events import StepEvent
from examples.tiny_grpo.training.settings import TrainingSettings

_SAME = 1e-3  # two logprobs of a token are the same up to this difference
_DEADLINE_S = 300.0


class Trainer:
    """Trains a model on batches, and serves each of its versions."""

    def __init__(
        self,
        model: TinyTransformer,
        policy: ServedPolicy,
        settings: TrainingSettings,
        *,
        letter: str | None = None,
        thinks: bool = False,
    ) -> None:
        """Train `model`, serve its weights by `policy`, and record the share of `letter`."""
        self._model = model
        self._policy = policy
        self._settings = settings
        self._letter = letter
        self._thinks = thinks
        self._optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)

    def train(self, api: RolloutApi) -> Iterator[StepEvent]:
        """Make all steps, each as soon as there is a batch.

        Raises:
            NothingCame: no batch came in time.
            ValueError: a batch cannot be trained on.
        """
        for number in range(1, self._settings.steps + 1):
            yield self.step(number, api.next_batch(_DEADLINE_S))

    def step(self, number: int, batch: Batch) -> StepEvent:
        """Make one step, and serve its weights."""
        numbers = compute_numbers(
            batch, self._policy, self._letter, thinks=self._thinks
        )  # the update changes the batch
        ratio, clipped, recomputed = self._update(batch)
        self._policy.publish(self._model)
        step = Step(
            step=number,
            reward=numbers.reward,
            letter_share=numbers.letter_share,
            well_formed=numbers.well_formed,
            length=numbers.length,
            ratio=ratio,
            clip_fraction=clipped,
            group_std=numbers.group_std,
            masked=numbers.masked,
            staleness=numbers.staleness,
            group_size=numbers.group_size,
            without_signal=numbers.without_signal,
        )
        return StepEvent(step, len(batch), recomputed)

    def _update(self, batch: Batch) -> tuple[float, float, float]:
        """Return the mean ratio, and the shares of clipped tokens and of equal logprobs."""
        settings = self._settings
        tokens, labels, advantages, temperatures, logprobs = pad_data_to_good_offset(
            {"batch": batch}, settings.batch_size
        )
        if logprobs is None or len(tokens) != 1:
            raise ValueError(
                f"expected {settings.batch_size} sequences with inference_logprobs in a batch"
            )
        self._optimizer.zero_grad()
        loss, metrics = compute_grpo_loss(
            self._model,
            tokens[0],
            labels[0],
            advantages[0].float(),
            temperatures[0],
            gradient_accumulation_steps=1,
            inference_logprobs=logprobs[0],
            clip_eps=settings.clip_eps,
        )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), settings.largest_gradient)
        self._optimizer.step()
        gap = (metrics["training_logprobs"] - metrics["inference_logprobs"]).abs()
        return (
            metrics["mean_ratio"],
            metrics["clipped_fraction"],
            (gap < _SAME).float().mean().item(),
        )
