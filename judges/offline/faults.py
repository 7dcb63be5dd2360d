"""Faults that a server shows on purpose: which kinds, how often, and on which attempt."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from judges.offline.rng import unit

KINDS = ("drop", "timeout", "garbage", "malformed", "empty")
"""The kinds that are no HTTP status: no answer, no end, noise for text, no JSON, no text."""

_STATUS = re.compile(r"[45][0-9]{2}")
_ROUNDING = 1e-9


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
            if kind not in KINDS and not (isinstance(kind, str) and _STATUS.fullmatch(kind)):
                raise ValueError(f"unknown kind of fault {kind!r}: known are 400 to 599, {', '.join(KINDS)}")
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ValueError(f"the rate of fault {kind!r} must be a number from 0 to 1, not {rate!r}")
        total = math.fsum(self.rates.values())
        if total > 1 + _ROUNDING:
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
        left = unit(f"fault\0{digest}\0{attempt}")
        for kind, rate in sorted(self.rates.items()):
            if left < rate:
                return kind
            left -= rate
        return None
