"""What the process of a seed is told: one JSON object on its command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from examples.tiny_grpo.tasks import WarmUp
from judgegym.llm import wire


@dataclass(frozen=True)
class TrainingSettings:
    """How the policy is trained.

    Attributes:
        steps: of the optimizer; one for each batch.
        batch_size: in sequences.
        learning_rate: of Adam.
        clip_eps: how far an importance ratio may be from 1.
        largest_gradient: to this norm gradients are clipped.
    """

    steps: int = 80
    batch_size: int = 64
    learning_rate: float = 1.5e-3
    clip_eps: float = 0.2
    largest_gradient: float = 1.0


@dataclass(frozen=True)
class SeedSettings:
    """One seed's process.

    Attributes:
        seed: of the weights and the samples.
        api: the URL of the rollout API.
        alphabet: what the policy writes.
        letter: whose share in the completions is recorded; `None`: of none.
        warm_up: the supervised training before; `None` without one.
        threads: of torch.
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
        """Return what `read` reads."""
        return wire.dumps(asdict(self)).decode()

    @staticmethod
    def read(text: str) -> SeedSettings:
        """Read the settings; a `ValueError` says what is wrong with them."""
        return TypeAdapter(SeedSettings).validate_json(text)
