"""Where a `serve` writes: its run directory with the ledger of calls, its file of groups, and its evaluations.

The run directory is beside the file of groups if there is one. Else it is the directory that is named for the
evaluations, or a new one. Each evaluation during training has a directory `step-<n>` of its own in that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judgegym.engine.runs.directory import RunDirectory, run_directory_of
from judgegym.engine.runs.disk import Disk
from judgegym.engine.runs.log import RunLog
from judgegym.engine.runs.packing import pack
from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.environments.training.group_file import GroupFile, free_path, make_folder
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.llm.errors import RunDirectoryError, UserError


def settle(settings: EnvSettings[Any], new_directory: Callable[[], Path]) -> None:
    """Put the places that a run uses into its settings: those that are given, or else new ones.

    Raises:
        RunDirectoryError: the file of groups to resume has no run directory.
    """
    config = settings.env
    if config.data_path_to_save_groups is not None:
        path = Path(config.data_path_to_save_groups).expanduser()
        beside = run_directory_of(path)
        if not settings.resume:
            path = free_path(path)
        elif path.exists() and not beside.exists():
            raise RunDirectoryError(f"{path} cannot be resumed: its run directory {beside} is not there")
        config.data_path_to_save_groups = str(path)
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
