"""Write scored groups to a JSONL file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from environments.runs.atomic import write_atomic
from environments.runs.disk import Disk
from environments.runs.lines import whole_lines
from judges.llm import wire
from judges.llm.errors import SettingsError
from judges.llm.wire import JSON

logger = logging.getLogger(__name__)


def free_path(path: Path) -> Path:
    """Return `path`, or if it exists `<stem>_1`, `<stem>_2`, …, as Atropos names them."""
    free, number = path, 0
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


class GroupFile:
    """Appends groups as they come, as whole lines; `finish` sorts them."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Create the file, under another name if it exists.

        Args:
            path: the file.
            disk: writes it; await its `ready` before a group begins.

        Raises:
            SettingsError: it cannot be created.
        """
        self.path = free_path(path.expanduser())
        self._disk = disk
        self._numbers: list[int] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open("xb").close()
        except OSError as error:
            raise SettingsError(f"--env.data_path_to_save_groups: {self.path}: {error.strerror}") from error
        self._writer = disk.appender(self.path)

    def write(self, number: int, group: Mapping[str, JSON]) -> None:
        """Append the group with a number; it has reached the operating system, or waits for the disk."""
        self._numbers.append(number)
        self._writer.append(wire.dumps(group) + b"\n")

    async def finish(self) -> None:
        """Wait until all groups are written, and put them in the order of their numbers.

        Raises:
            DiskFull: the disk refused for too long.
        """
        await self._disk.ready()
        await self._disk.retried(self.path, self._sort)

    def close(self) -> None:
        """Close the file, with its groups in the order of their numbers if the disk has room for that."""
        self._writer.close()
        try:
            self._sort()
        except OSError as error:
            logger.warning("%s: the groups stay in the order in which they came: %s", self.path, error.strerror)

    def _sort(self) -> None:
        if self._numbers == sorted(self._numbers):
            return
        self._writer.close()
        lines = [line.data for line in whole_lines(self.path)]
        # The last ones are missing if the disk refused them.
        numbered = sorted(zip(self._numbers, lines, strict=False), key=lambda pair: pair[0])
        write_atomic(self.path, b"".join(line for _, line in numbered))
        self._numbers = [number for number, _ in numbered]
