"""A process whose memory and open files are watched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_GROWTH = 1.5
_SLACK_MB = 64.0
_SLACK_FILES = 32


@dataclass(frozen=True)
class Measured:
    """Resident memory and open file descriptors at one moment."""

    megabytes: float
    files: int

    @classmethod
    def of(cls, pid: int) -> Measured:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return cls(int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))

    def __str__(self) -> str:
        return f"{self.megabytes:.0f} MB, {self.files} files"

    def has_grown_to(self, later: Measured) -> bool:
        """Whether it is more than warm caches and connections explain."""
        return (
            later.megabytes > self.megabytes * _GROWTH + _SLACK_MB
            or later.files > self.files + _SLACK_FILES
        )
