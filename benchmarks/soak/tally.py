"""What a soak has counted, and whether all is as it must be."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.soak.watched import Measured


@dataclass
class Tally:
    """The counts of one soak.

    Attributes:
        counts: by name.
        wrong: what is not as it must be, a line each.
        watched: memory and files of long-lived processes, early and at the end.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    watched: dict[str, tuple[Measured, Measured]] = field(default_factory=dict)

    def fail(self, what: str) -> None:
        """Note what is wrong, and say it at once."""
        self.wrong.append(what)
        sys.stderr.write(f"WRONG: {what}\n")

    def summary(self) -> str:
        """All of it, in lines."""
        lines = [f"{name}: {count}" for name, count in sorted(self.counts.items())]
        lines.append(f"faults injected: {self.faults.total()} of {len(self.faults)} kinds")
        for name in ("rows lost", "unflagged failures"):
            if name not in self.counts:
                lines.append(f"{name}: 0")
        for name, (early, late) in self.watched.items():
            lines.append(f"{name}: {early} early, {late} at the end")
            if early.has_grown_to(late):
                self.fail(f"{name} has grown from {early} to {late}")
        lines.append(
            "all is as it must be" if not self.wrong else f"{len(self.wrong)} things are wrong"
        )
        return "\n".join([*lines, *(f"  {what[:1000]}" for what in self.wrong)])
