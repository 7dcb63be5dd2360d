"""Times and costs as people read them."""

from __future__ import annotations

UNKNOWN = "unknown"


def duration(seconds: float, *, tenths: bool = True) -> str:
    """A time: 2.3 s (2 s without tenths), 41 s, 4 min 05 s, 3 h 07 min."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 and tenths else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{minutes} min {rest:02d} s" if not hours else f"{hours} h {minutes_left:02d} min"


def dollars(cost: float | None) -> str:
    """A cost, with four places below a dollar; `None` is unknown."""
    if cost is None:
        return UNKNOWN
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"
