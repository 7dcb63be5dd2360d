"""Thresholds of an audit: the shipped ones, and changes by a user's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from judgegym.engine.records import explain_errors
from judgegym.judges.config.presets import read_yaml
from judgegym.judges.core.naming import refuse_unknown, suggest_similar
from judgegym.llm.errors import SettingsError

_STATIC = Path(__file__).parent / "static"
THRESHOLDS = _STATIC / "thresholds.yaml"
_SETTINGS = "settings of an audit, such as checks: {accuracy: {at_least: 0.8}}"
_SIDES: tuple[Literal["at_least", "at_most", "within"], ...] = ("at_least", "at_most", "within")


class Threshold(BaseModel):
    """Tolerance of one check; without any of the three fields it has no threshold."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at_least: float | None = None
    at_most: float | None = None
    within: float | None = Field(default=None, ge=0)
    margin: float = Field(gt=0)

    @model_validator(mode="after")
    def _one_side(self) -> Threshold:
        if sum(getattr(self, side) is not None for side in _SIDES) > 1:
            sides = ", ".join(_SIDES)
            raise ValueError(f"expected one of {sides}")
        return self

    @property
    def side(self) -> Literal["at_least", "at_most", "within", ""]:
        """Which of the three fields is set; empty without any."""
        return next((side for side in _SIDES if getattr(self, side) is not None), "")

    @property
    def limit(self) -> float:
        """The number in the field that is set."""
        return float(getattr(self, self.side))

    def tolerates(self, value: float) -> bool:
        """Return whether a value is on the good side."""
        if self.side == "at_least":
            return value >= self.limit
        if self.side == "within":
            return abs(value) <= self.limit
        return value <= self.limit

    def excludes(self, low: float, high: float) -> bool:
        """Return whether a whole interval is on the bad side."""
        if self.side == "within" and low < 0 < high:
            return False
        return not self.tolerates(low) and not self.tolerates(high)


class AuditSettings(BaseModel):
    """Settings of an audit's decisions; comments in the shipped file explain each number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    alpha: float = Field(gt=0, lt=1)
    level: float = Field(gt=0, lt=1)
    power: float = Field(gt=0, lt=1)
    label_noise_bound: float = Field(ge=0, lt=0.5)
    checks: Mapping[str, Threshold]


def load_settings(path: Path | None = None) -> AuditSettings:
    """Load the shipped settings, overridden by those of a file.

    Raises:
        SettingsError: the file cannot be read, names an unknown check, or has an invalid number.
    """
    values = read_mapping(THRESHOLDS)
    if path is not None:
        changes = read_mapping(path, "--settings: ")
        where = f"--settings: {path}"
        refuse_unknown(changes, AuditSettings.model_fields, prefix=f"{where}: ")
        checks: Any = changes.pop("checks", None) or {}
        if not isinstance(checks, Mapping):
            raise SettingsError(
                f"{where}: checks: expected names of checks with their thresholds, found {checks!r}"
            )
        for name, threshold in checks.items():
            if name not in values["checks"]:
                hint = suggest_similar(str(name), values["checks"])
                raise SettingsError(f"{where}: checks: no check {name!r}{hint}")
            if not isinstance(threshold, Mapping):
                raise SettingsError(
                    f"{where}: checks.{name}: expected {{at_least: 0.8}} or the like"
                )
            refuse_unknown(threshold, Threshold.model_fields, prefix=f"{where}: checks.{name}.")
            before = values["checks"][name]
            if set(threshold) & {*_SIDES}:
                before = {"margin": before["margin"]}
            values["checks"][name] = {**before, **threshold}
        values |= changes
    try:
        return AuditSettings.model_validate(values)
    except ValidationError as error:
        reason = explain_errors(error)
        raise SettingsError(f"{path or THRESHOLDS}: {reason}") from None


def read_shipped(name: str) -> dict[str, Any]:
    """Load a YAML file of the package, with texts and patterns of checks."""
    return read_mapping(_STATIC / name)


def read_mapping(path: Path, place: str = "", expected: str = _SETTINGS) -> dict[str, Any]:
    """Load a YAML file that holds a mapping.

    Args:
        path: the file.
        place: the beginning of error messages.
        expected: a description of the expected content, for messages.

    Raises:
        SettingsError: it cannot be read, or is not a mapping.
    """
    values = read_yaml(path, place)
    if not isinstance(values, dict):
        raise SettingsError(f"{place}{path}: expected {expected}")
    return values
