"""Numbers among settings: what a trainer would take without a word, and what ends with no score at all."""

from __future__ import annotations

import math

from judgegym.llm.errors import SettingsError


def check_finite(**numbers: float | None) -> None:
    """Check the scores among settings; `None` is none.

    Raises:
        SettingsError: one is not a finite number.
    """
    for name, value in numbers.items():
        if value is not None and not _is_finite(value):
            raise SettingsError(f"{name}: expected a finite number, found {value!r}")


def check_seconds(**times: float) -> None:
    """Check the times among settings.

    Raises:
        SettingsError: one is not a number of seconds above 0.
    """
    for name, value in times.items():
        if not _is_finite(value) or value <= 0:
            raise SettingsError(f"{name}: expected a number of seconds above 0, found {value!r}")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
