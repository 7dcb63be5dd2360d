"""Evidence on a judge: what audits, attacks and repeated judgments measured, on which data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from typing_extensions import Self

Source: TypeAlias = Literal["audit", "attack", "repeat"]
_DIGEST = r"^sha256:[0-9a-f]{64}$"


def _round(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}")


_Number = Annotated[FiniteFloat, AfterValidator(_round)]


class Figure(BaseModel):
    """A measured number with its interval, all with four significant digits.

    Attributes:
        value: the number.
        low: the lower end of its interval; `None` without an interval.
        high: the upper end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: _Number
    low: _Number | None = None
    high: _Number | None = None

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if (self.low is None) is not (self.high is None):
            raise ValueError("expected both ends of an interval, found one")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"expected low ≤ high, found {self.low:g} and {self.high:g}")
        return self

    def __str__(self) -> str:
        """Return the number with its interval."""
        if self.low is None:
            return f"{self.value:g}"
        return f"{self.value:g} ({self.low:g} to {self.high:g})"


class Evidence(BaseModel):
    """What one command measured.

    Attributes:
        by: the command: `audit`, `attack`, or `repeat` for `score --repeat_column`.
        date: the day of the measurement.
        rows: number of rows.
        data: the digest of the data.
        judge: the digest of the judge at that time (`JudgeCard.digest`).
        model: the model that was asked; `None` for a judge without a model.
        served: the models that the endpoint named in its responses.
        figures: numbers by name, such as accuracy, position, length, noise and price_per_row.
        attacks: the attacks that succeed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Source
    date: date
    rows: int = Field(ge=1)
    data: str = Field(pattern=_DIGEST)
    judge: str = Field(pattern=_DIGEST)
    model: str | None = None
    served: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = {}
    attacks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The command, the day and the number of rows."""
        return f"{self.by} of {self.date.isoformat()}, {self.rows:,} rows"


def digest_bytes(data: bytes) -> str:
    """Return the digest of a file's bytes, as evidence names its data."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
