"""The load that other processes put on the machine before and during a script.

The load average still holds what earlier scripts of the same run did. Their part is estimated with
the kernel's own formula (an average that decays in a minute) and taken off, so that it does not
look like another's load.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOST_LOAD_BEFORE = 0.5
MOST_OTHERS = 0.1
MOST_STOLEN = 0.02
_MINUTE = 60.0
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Load:
    """What else the machine did.

    Attributes:
        average: the load average of the last minute, before the script.
        before: the part of it that is not this run's.
        others: the share of all cores' time that other processes used during the script; `None`
            where it is unknown.
        stolen: the share that the hypervisor gave to other machines; `None` where it is unknown.
    """

    average: float
    before: float
    others: float | None = None
    stolen: float | None = None

    @property
    def is_disturbing(self) -> bool:
        """Whether a figure that was measured under it is to be doubted."""
        return (
            self.before > MOST_LOAD_BEFORE
            or (self.others or 0) > MOST_OTHERS
            or (self.stolen or 0) > MOST_STOLEN
        )

    def __str__(self) -> str:
        parts = [f"{self.average:.1f}"]
        if self.others is not None:
            parts.append(f"others {self.others:.0%}")
        if self.stolen is not None and self.stolen >= 0.005:
            parts.append(f"stolen {self.stolen:.0%}")
        return ", ".join(parts) + (" **UNDER LOAD**" if self.is_disturbing else "")


@dataclass(slots=True)
class MonitorTarget:
    """A stretch of time that is watched; `load` is there at its end."""

    own_cpu_s: float = 0.0
    load: Load = Load(0.0, 0.0)


class LoadMeter:
    """Watches one script after the other."""

    def __init__(self) -> None:
        self._own_part = 0.0
        """What the scripts of this run have left in the load average."""
        self._at = time.monotonic()

    @contextmanager
    def watching(self) -> Iterator[MonitorTarget]:
        """Watch what happens in the block, which sets `own_cpu_s`: the CPU seconds that were its own."""
        self._pass(0.0)
        average, ticks, watched = os.getloadavg()[0], _ticks(), MonitorTarget()
        before = max(0.0, average - self._own_part)
        yield watched
        seconds = self._pass(watched.own_cpu_s)
        watched.load = Load(average, before, *_shares(ticks, _ticks(), seconds, watched.own_cpu_s))

    def _pass(self, own_cpu_s: float) -> float:
        """Note the time since the last call, and our CPU seconds in it; returns the time."""
        now = time.monotonic()
        seconds, self._at = now - self._at, now
        kept = math.exp(-seconds / _MINUTE)
        self._own_part = self._own_part * kept + (own_cpu_s / seconds if seconds else 0.0) * (
            1 - kept
        )
        return seconds


@dataclass(frozen=True, slots=True)
class _Ticks:
    """CPU seconds of all cores since the machine started."""

    busy: float
    stolen: float


def _ticks() -> _Ticks | None:
    if not _STAT.exists():  # not Linux
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, _STAT.read_text().split()[1:9])
    each = os.sysconf("SC_CLK_TCK")
    return _Ticks((user + nice + system + irq + softirq) / each, steal / each)


def _shares(
    before: _Ticks | None, after: _Ticks | None, seconds: float, own_cpu_s: float
) -> tuple[float | None, float | None]:
    if before is None or after is None:
        return None, None
    available = seconds * (os.cpu_count() or 1)
    return max(0.0, after.busy - before.busy - own_cpu_s) / available, (
        after.stolen - before.stolen
    ) / available
