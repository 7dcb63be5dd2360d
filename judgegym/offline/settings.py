"""How a stand-in behaves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.offline.faults import Faults, Outage


@dataclass(frozen=True)
class StandInSettings:
    """The settings of a stand-in server; raises a `ValueError` that names the one that is wrong.

    Attributes:
        latency_ms: milliseconds from a request's arrival to its answer or error.
        faults: the faults and their rates.
        away: when nothing listens.
        slow_ms: milliseconds that a `slow` answer takes.
        retry_after: seconds, sent with 429 and 503; not sent if `None`.
        judge_only: whether a prompt of no known judge is refused instead of answered as by a policy.
        prompts: of further judges; they go before those of this project.
        prefix_cache: whether answers tell how many of the prompt's tokens earlier prompts began with
            (`prompt_tokens_details.cached_tokens`); they then depend on the order of the requests.
        text_only: whether a request with a JSON schema as `response_format` is refused, as by an endpoint that has
            none.
    """

    latency_ms: float = 0.0
    faults: Faults = field(default_factory=Faults)
    away: Sequence[Outage] = ()
    slow_ms: float = 5000.0
    retry_after: int | None = None
    judge_only: bool = False
    prompts: Sequence[PromptFormat] = ()
    prefix_cache: bool = False
    text_only: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in (("latency_ms", self.latency_ms), ("slow_ms", self.slow_ms)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
        if self.retry_after is not None and self.retry_after < 0:
            raise ValueError(f"retry_after must be at least 0, not {self.retry_after!r}")
