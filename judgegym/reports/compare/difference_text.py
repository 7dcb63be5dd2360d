"""Format a difference and its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.statistics.agreement import Interval


def format_signed(value: float) -> str:
    """Format a difference with its sign."""
    if round(value, 4) == 0:
        return "0.0000"
    return f"{value:+.4f}".replace("-", "−")


def difference_cells(estimate: Mapping[str, Any] | None) -> tuple[str, str]:
    """Format a difference and its interval, or why there is none; empty for the reference."""
    if estimate is None:
        return "", ""
    interval: Interval | None = estimate["interval"]
    if interval is None:
        between = estimate["reason"]
    else:
        low = format_signed(interval.low)
        high = format_signed(interval.high)
        between = f"{low} to {high}"
    return format_signed(estimate["value"]), between
