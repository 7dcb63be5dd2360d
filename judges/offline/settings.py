"""How a stand-in behaves: its settings, and the faults that it shows on purpose."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges.core.prompt_format import PromptFormat
from judges.core.seeding import generator

KINDS = ("drop", "timeout", "garbage", "malformed", "empty")
"""The kinds that are no HTTP status: no answer, no end, noise for text, no JSON, no text."""


@dataclass(frozen=True)
class Faults:
    """Rates by kind: an HTTP status from "400" to "599", or one of `KINDS`.

    Every rate is a number from 0 to 1 and their sum is at most 1; anything else raises a `ValueError` of one line that
    names the kind and the value.
    """

    rates: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the rates."""
        for kind, rate in self.rates.items():
            if kind not in KINDS and not (isinstance(kind, str) and re.fullmatch("[45][0-9]{2}", kind)):
                raise ValueError(f"unknown kind of fault {kind!r}: known are 400 to 599, {', '.join(KINDS)}")
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ValueError(f"the rate of fault {kind!r} must be a number from 0 to 1, not {rate!r}")
        total = math.fsum(self.rates.values())
        if total > 1 + 1e-9:  # less is rounding
            raise ValueError(f"the rates of the faults must add up to at most 1, not {total:g} ({dict(self.rates)})")

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Read a JSON object such as `{"429": 0.1, "drop": 0.02}`; raises `ValueError` with one line."""
        try:
            rates = json.loads(text)
        except (ValueError, RecursionError):
            rates = None
        if not isinstance(rates, dict):
            raise ValueError(f'faults must be a JSON object such as {{"429": 0.1}}, not {text[:80]!r}')
        return cls(rates)

    def draw(self, digest: str, attempt: int) -> str | None:
        """The kind of fault that this attempt of this request meets, or `None` for a proper answer.

        A function of the rates (not of their order), the digest and the attempt: attempts are independent draws.
        """
        left = generator(attempt, digest, "fault").random()
        for kind, rate in sorted(self.rates.items()):
            if left < rate:
                return kind
            left -= rate
        return None


@dataclass(frozen=True)
class StandInSettings:
    """The settings of a stand-in server; raises a `ValueError` that names the one that is wrong.

    Attributes:
        latency_ms: milliseconds from a request's arrival to its answer or error.
        faults: the faults and their rates.
        retry_after: seconds, sent with 429 and 503; not sent if `None`.
        judge_only: whether a prompt of no known judge is refused instead of answered as by a policy.
        prompts: of further judges; they go before those of this project.
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
