"""How fast a run goes now, and how long the rest takes at that rate."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 60.0
_LEAST = 10  # of what is counted: if that took longer than the window, the rate is over these

_WHOLE_FROM = 1000


class RecentRate:
    """The rate over the last minute, or over the last ten that were done if these took longer.

    What an earlier run has done is the begin, and counts for nothing. While nothing is done the rate falls.
    """

    def __init__(self, done: int, now: float) -> None:
        """Begin with what is done already."""
        self._points: deque[tuple[float, int]] = deque([(now, done)])

    def note(self, done: int, now: float) -> None:
        """Note how much is done by now."""
        points = self._points
        if done != points[-1][1]:
            points.append((now, done))
        while len(points) > 1 and now - points[1][0] > _WINDOW_S and done - points[1][1] >= _LEAST:
            points.popleft()

    def per_second(self, now: float) -> float:
        """Return the rate; 0 before anything is done."""
        (began, before), (_, done) = self._points[0], self._points[-1]
        return (done - before) / (now - began) if now > began else 0.0

    def seconds_left(self, total: int, now: float) -> float | None:
        """Return the time for the rest; `None` before anything is done."""
        rate = self.per_second(now)
        return (total - self._points[-1][1]) / rate if rate else None


def rate_words(per_second: float, unit: str) -> str:
    """A rate in the unit of time in which it is a number of at least one; empty for 0."""
    for seconds, name in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * seconds >= 1:
            rate = per_second * seconds
            return f"{rate:,.{0 if rate >= _WHOLE_FROM else 1}f} {unit}/{name}"
    return f"{per_second * 3600:.2f} {unit}/h" if per_second else ""
