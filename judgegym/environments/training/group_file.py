"""The JSONL file of scored groups, and the paths of a `serve` or `process`.

The run directory with the ledger of calls is beside the file of groups if there is one. Otherwise
it is the directory that is set for the evaluations, or a new one. Each evaluation during training
has its own directory `step-<n>` in it.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from judgegym.engine.runs.damaged_lines import mend_lines
from judgegym.engine.runs.directory import RunDirectory, locate_run_directory
from judgegym.engine.runs.disk import Disk, write_atomic
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.lines import RawLine, split_lines
from judgegym.engine.settings import EnvSettings
from judgegym.llm.errors import RunDirectoryError, SettingsError, UserError
from judgegym.llm.wire import JSON

logger = logging.getLogger(__name__)

LedgerT = TypeVar("LedgerT", bound=CallLedger)


class GroupFile:
    """File of groups: they are appended as whole lines as they come, and sorted by `finish`."""

    def __init__(self, path: Path, disk: Disk, *, resume: bool = False) -> None:
        """Create the file.

        Args:
            path: the file, which must not exist (`resolve_groups_path`) unless a run is resumed;
                its folder must.
            disk: writes the file; await its `ready` before a group begins.
            resume: keep the groups that are in the file; `write` gives them their numbers again.

        Raises:
            SettingsError: the file cannot be created.
            RunDirectoryError: the file is damaged, and cannot be replaced.
        """
        self.path = path
        self._disk = disk
        self._numbers: list[int | None] = []
        """Number of each line; `None` for a line of an earlier run, until it is written again."""
        self._earlier_lines: dict[bytes, list[int]] = defaultdict(list)
        try:
            path.open("ab" if resume else "xb").close()
        except OSError as error:
            raise SettingsError(
                f"--env.data_path_to_save_groups: {path}: {error.strerror}"
            ) from error
        self._writer = disk.appender(path)
        for index, (line, _) in enumerate(
            mend_lines(path, _read_scores, ("group", "will be made again"))
        ):
            self._numbers.append(None)
            self._earlier_lines[_digest(line.data)].append(index)
        self.earlier_groups = len(self._numbers)
        """Number of groups that the file had from an earlier run."""

    def write(self, number: int, group: bytes, *, is_new: bool = False) -> None:
        """Append the group with a number, as JSON.

        It reaches the operating system or waits for the disk.

        A group that the file has from an earlier run stays where it is, unless this one `is_new`:
        it may be equal by chance.
        """
        line = group + b"\n"
        indices = None
        if self._earlier_lines and not is_new:
            indices = self._earlier_lines.get(_digest(line))
        if indices:
            self._numbers[indices.pop(0)] = number
            return
        self._numbers.append(number)
        self._writer.append(line)

    async def finish(self) -> None:
        """Wait until all groups are written, and sort them by their numbers.

        Raises:
            DiskFull: the disk refused for too long.
        """
        await self._disk.ready()
        await self._disk.retry_until_written(self.path, self._sort)

    def close(self) -> None:
        """Close the file, with its groups sorted by their numbers if the disk has room for that.

        If groups of an earlier run were not written again, all groups stay in the order in which
        they came.
        """
        self._writer.close()
        if None in self._numbers:
            return
        try:
            self._sort()
        except OSError as error:
            logger.warning(
                "%s: the groups stay in the order in which they came: %s", self.path, error.strerror
            )

    def _sort(self) -> None:
        if self._numbers == sorted(number for number in self._numbers if number is not None):
            return
        self._writer.close()
        lines = [line.data for line in split_lines(self.path)]
        # The last lines are missing if the disk refused them; lines without a number were made anew
        # and differ.
        pairs = [
            (number, line)
            for number, line in zip(self._numbers, lines, strict=False)
            if number is not None
        ]
        numbered = sorted(pairs, key=lambda pair: pair[0])
        write_atomic(self.path, b"".join(line for _, line in numbered))
        self._numbers = [number for number, _ in numbered]


def _read_scores(line: RawLine) -> JSON:
    return line.fields()["scores"]


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def resolve_groups_path(name: str, *, resume: bool) -> Path:
    """Return the path of a run's file of groups: the file that is resumed, or a free name.

    If `name` or its run directory exists: `<stem>_1`, `<stem>_2`, …, as Atropos names them.

    Raises:
        RunDirectoryError: the file to resume has no run directory.
    """
    free = path = Path(name).expanduser()
    if resume:
        directory = locate_run_directory(path)
        if path.exists() and not directory.exists():
            raise RunDirectoryError(
                f"{path} cannot be resumed: its run directory {directory} is not there"
            )
        return path
    number = 0
    while free.exists() or locate_run_directory(free).exists():
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


def resolve_paths(settings: EnvSettings[Any], new_directory: Callable[[], Path]) -> None:
    """Set the paths of a run in its settings: given paths, or else new ones.

    Raises:
        RunDirectoryError: the file of groups to resume has no run directory.
    """
    config = settings.env
    if config.data_path_to_save_groups is not None:
        config.data_path_to_save_groups = str(
            resolve_groups_path(config.data_path_to_save_groups, resume=settings.resume)
        )
    if config.data_dir_to_save_evals is None:
        groups = config.data_path_to_save_groups
        directory = new_directory() if groups is None else locate_run_directory(Path(groups))
        config.data_dir_to_save_evals = str(directory)


def open_files(
    settings: EnvSettings[Any],
    verb: Literal["serve", "process"],
    open_ledger: Callable[[RunDirectory], LedgerT],
) -> tuple[RunDirectory, GroupFile | None, LedgerT]:
    """Open the run directory, the file of groups (`None` without one) and the ledger.

    Raises:
        SettingsError: the file of groups cannot be created.
        RunDirectoryError: the run cannot be resumed, another process uses it, or its directory is
            not empty.
    """
    config = settings.env
    groups = None
    if config.data_path_to_save_groups is not None:
        groups = Path(config.data_path_to_save_groups)
    if groups is None:
        directory = Path(config.data_dir_to_save_evals or "").expanduser()
    else:
        directory = locate_run_directory(groups)
    if groups is not None:
        try:
            groups.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"--env.data_path_to_save_groups: {groups}: {error.strerror}"
            ) from error
    path_setting = "--env.data_dir_to_save_evals"
    if verb == "process":
        path_setting = "--env.data_path_to_save_groups"
    run = RunDirectory(
        directory,
        config=settings.public(),
        matters=settings.matters(verb),
        defaults=settings.defaults(verb),
        settings=settings,
        resume=settings.resume,
        path_setting=path_setting,
    )
    try:
        file = None
        if groups is not None:
            file = GroupFile(groups, run.disk, resume=settings.resume)
        return run, file, open_ledger(run)
    except UserError:
        run.close()
        raise
