"""Write scored groups to a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from environments.runs.atomic import write_atomic
from judges.llm import wire
from judges.llm.errors import SettingsError
from judges.llm.wire import JSON


def free_path(path: Path) -> Path:
    """Return `path`, or if it exists `<stem>_1`, `<stem>_2`, …, as Atropos names them."""
    free, number = path, 0
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


class GroupFile:
    """Appends groups as they come; `close` sorts them. Each has reached the operating system when `write` returns."""

    def __init__(self, path: Path) -> None:
        """Create the file, under another name if it exists.

        Raises:
            SettingsError: it cannot be created.
        """
        self.path = free_path(path.expanduser())
        self._numbers: list[int] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self.path.open("xb", buffering=0)
        except OSError as error:
            raise SettingsError(f"--env.data_path_to_save_groups: {self.path}: {error.strerror}") from error

    def write(self, number: int, group: Mapping[str, JSON]) -> None:
        """Append the group with a number."""
        self._numbers.append(number)
        self._file.write(wire.dumps(group) + b"\n")

    def close(self) -> None:
        """Close the file, with its groups in the order of their numbers."""
        self._file.close()
        if self._numbers != sorted(self._numbers):
            lines = self.path.read_bytes().splitlines(keepends=True)
            write_atomic(self.path, b"".join(line for _, line in sorted(zip(self._numbers, lines, strict=True))))
