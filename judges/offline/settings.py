"""How a stand-in behaves: checked once, for the object and for the command."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.core.prompt_format import PromptFormat
from judges.offline.faults import Faults


@dataclass(frozen=True)
class StandInSettings:
    """The settings of a stand-in server.

    Attributes:
        latency_ms: from a request's arrival to its answer, of whatever kind.
        faults: which faults it shows, and how often.
        retry_after: seconds, sent with 429 and 503; not sent if `None`.
        judge_only: whether a prompt of no known judge is refused instead of answered as by a policy.
        prompts: of further judges; they go before those of this project.

    Raises:
        ValueError: one is wrong; the message names it.
    """

    latency_ms: float = 0.0
    faults: Faults = field(default_factory=Faults)
    retry_after: int | None = None
    judge_only: bool = False
    prompts: Sequence[PromptFormat] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 <= self.latency_ms < float("inf"):
            raise ValueError(f"latency_ms must be a number of at least 0, not {self.latency_ms!r}")
        if self.retry_after is not None and self.retry_after < 0:
            raise ValueError(f"retry_after must be at least 0, not {self.retry_after!r}")
