"""The settings of a seed's process: one JSON object on its command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from examples.tiny_grpo.tasks import WarmUp
from judgegym.llm import wire


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of the trainer.

    Attributes:
        steps: the number of optimizer steps, one for each batch.
        batch_size: the number of sequences of a batch.
        learning_rate: the learning rate of Adam.
        clip_eps: how far an importance ratio may be from 1.
        largest_gradient: the norm to which gradients are clipped.
    """

    steps: int = 80
    batch_size: int = 64
    learning_rate: float = 1.5e-3
    clip_eps: float = 0.2
    largest_gradient: float = 1.0


@dataclass(frozen=True)
class SeedSettings:
    """The settings of one seed's process.

    Attributes:
        seed: the seed of the weights and the samples.
        api: the URL of the rollout API.
        alphabet: the characters that the policy writes.
        letter: the letter whose share in the completions is recorded; `None` for none.
        warm_up: the supervised training before; `None` without one.
        threads: the number of torch's threads.
        training: how the policy is trained.
    """

    seed: int
    api: str
    alphabet: str
    letter: str | None
    warm_up: WarmUp | None
    threads: int
    training: TrainingSettings

    def to_json(self) -> str:
        """Return the settings as JSON, for `read`."""
        return wire.dumps(asdict(self)).decode()

    @staticmethod
    def read(text: str) -> SeedSettings:
        """Read the settings; wrong ones raise a `ValueError`."""
        return TypeAdapter(SeedSettings).validate_json(text)
