"""Write scored groups to a JSONL file.

Where a `serve` writes: its run directory with the ledger of calls, its file of groups, and its evaluations.

The run directory is beside the file of groups if there is one. Else it is the directory that is named for the
evaluations, or a new one. Each evaluation during training has a directory `step-<n>` of its own in that.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judgegym.engine.runs.directory import RunDirectory, run_directory_of
from judgegym.engine.runs.disk import Disk, write_atomic
from judgegym.engine.runs.lines import read_lines, whole_lines
from judgegym.engine.runs.log import RunLog
from judgegym.engine.runs.recorded_calls import pack
from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.llm.errors import RunDirectoryError, SettingsError, UserError

logger = logging.getLogger(__name__)


def free_path(path: Path) -> Path:
    """Return `path`, or if it or its run directory exists `<stem>_1`, `<stem>_2`, …, as Atropos names them."""
    free, number = path, 0
    while free.exists() or run_directory_of(free).exists():
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


def make_folder(path: Path) -> None:
    """Create the folder of a file of groups.

    Raises:
        SettingsError: it cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--env.data_path_to_save_groups: {path}: {error.strerror}") from error


class GroupFile:
    """Appends groups as they come, as whole lines; `finish` sorts them."""

    def __init__(self, path: Path, disk: Disk, *, resume: bool = False) -> None:
        """Create the file.

        Args:
            path: the file, which must not exist (`free_path`) unless a run is resumed.
            disk: writes it; await its `ready` before a group begins.
            resume: keep the groups that are in the file; `write` gives them their numbers again.

        Raises:
            SettingsError: it cannot be created.
        """
        self.path = path
        self._disk = disk
        self._numbers: list[int | None] = []
        """The number of each line; `None` for a line of an earlier run, until it is written again."""
        self._kept: dict[bytes, list[int]] = defaultdict(list)
        make_folder(self.path)
        try:
            self.path.open("ab" if resume else "xb").close()
        except OSError as error:
            raise SettingsError(f"--env.data_path_to_save_groups: {self.path}: {error.strerror}") from error
        self._writer = disk.appender(self.path)
        for place, line in enumerate(read_lines(self.path)):
            self._numbers.append(None)
            self._kept[_digest(line.data)].append(place)

    @property
    def kept(self) -> int:
        """How many groups of an earlier run the file had."""
        return sum(map(len, self._kept.values()))

    def write(self, number: int, group: bytes, *, is_new: bool = False) -> None:
        """Append the group with a number, as JSON; it has reached the operating system, or waits for the disk.

        A group that the file has of an earlier run stays where it is, unless this one `is_new`, which may be equal.
        """
        line = group + b"\n"
        places = self._kept.get(_digest(line)) if self._kept and not is_new else None
        if places:
            self._numbers[places.pop(0)] = number
            return
        self._numbers.append(number)
        self._writer.append(line)

    async def finish(self) -> None:
        """Wait until all groups are written, and put them in the order of their numbers.

        Raises:
            DiskFull: the disk refused for too long.
        """
        await self._disk.ready()
        await self._disk.retried(self.path, self._sort)

    def close(self) -> None:
        """Close the file, with its groups in the order of their numbers if the disk has room for that.

        Groups of an earlier run that were not written again stay, all in the order in which they came.
        """
        self._writer.close()
        if None in self._numbers:
            return
        try:
            self._sort()
        except OSError as error:
            logger.warning("%s: the groups stay in the order in which they came: %s", self.path, error.strerror)

    def _sort(self) -> None:
        if self._numbers == sorted(number for number in self._numbers if number is not None):
            return
        self._writer.close()
        lines = [line.data for line in whole_lines(self.path)]
        # The last ones are missing if the disk refused them; those without a number were made anew and differ.
        found = [(number, line) for number, line in zip(self._numbers, lines, strict=False) if number is not None]
        numbered = sorted(found, key=lambda pair: pair[0])
        write_atomic(self.path, b"".join(line for _, line in numbered))
        self._numbers = [number for number, _ in numbered]


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def groups_path(named: str, *, resume: bool) -> Path:
    """Return the file of groups of a run: the one that is resumed, or `named`, or a free name like that.

    Raises:
        RunDirectoryError: the file to resume has no run directory.
    """
    path = Path(named).expanduser()
    if not resume:
        return free_path(path)
    if path.exists() and not run_directory_of(path).exists():
        raise RunDirectoryError(f"{path} cannot be resumed: its run directory {run_directory_of(path)} is not there")
    return path


def settle(settings: EnvSettings[Any], new_directory: Callable[[], Path]) -> None:
    """Put the places that a run uses into its settings: those that are given, or else new ones.

    Raises:
        RunDirectoryError: the file of groups to resume has no run directory.
    """
    config = settings.env
    if config.data_path_to_save_groups is not None:
        config.data_path_to_save_groups = str(groups_path(config.data_path_to_save_groups, resume=settings.resume))
    if config.data_dir_to_save_evals is None:
        has_groups = config.data_path_to_save_groups is not None
        config.data_dir_to_save_evals = str(run_directory(config) if has_groups else new_directory())


def run_directory(config: EnvConfig) -> Path:
    """The run directory of settled settings."""
    if config.data_path_to_save_groups is not None:
        return run_directory_of(Path(config.data_path_to_save_groups))
    assert config.data_dir_to_save_evals is not None, "`settle` has set it"
    return Path(config.data_dir_to_save_evals).expanduser()


class ServeFiles:
    """Opens the files, and closes them.

    Attributes:
        disk: writes them.
        ledger: the ledger of calls.
        groups: the path of the file of groups; `None` without one.
    """

    def __init__(self, settings: EnvSettings[Any]) -> None:
        """Open the files at the place that the settings name (`settle`).

        Raises:
            SettingsError: the file of groups cannot be created.
            RunDirectoryError: the run cannot be resumed, another process is at it, or its directory is not empty.
        """
        config = settings.env
        self.disk = Disk(config.disk_full_deadline)
        self.groups = Path(config.data_path_to_save_groups) if config.data_path_to_save_groups is not None else None
        self._keeps_calls = settings.keeps_rollout_calls
        self._written = 0
        if self.groups is not None:
            make_folder(self.groups)
        self._run, _ = RunDirectory.open(
            run_directory(config),
            config=settings.public(),
            matters=settings.matters("serve"),
            defaults=settings.defaults("serve"),
            resume=settings.resume,
            disk=self.disk,
        )
        try:
            self._file = GroupFile(self.groups, self.disk, resume=settings.resume) if self.groups is not None else None
            self.ledger = GroupLedger(self._run, keep=self._keeps_calls)
        except UserError:
            self._run.close()
            raise

    @property
    def log(self) -> RunLog:
        """The log of the run."""
        return self._run.log

    def write(self, group: bytes, *, is_new: bool) -> None:
        """Append a group to the file of groups, if there is one; see `GroupFile.write`."""
        if self._file is not None:
            self._written += 1
            self._file.write(self._written, group, is_new=is_new)

    def close_groups(self) -> None:
        """Close what groups in progress write to; try once more to write what a full disk has refused."""
        if self._file is not None:
            self._file.close()
        self.disk.close()

    async def pack(self) -> None:
        """Pack or remove the ledger of a run that has done all its steps: nothing is left to resume."""
        await asyncio.to_thread(pack, self._run.path, keep=self._keeps_calls)

    def close(self) -> None:
        """Close the run directory."""
        self.ledger.close()
        self._run.close()
