"""The files of a `serve`: its run directory with the ledger of calls, and the file of groups if there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from environments.runs.directory import RunDirectory
from environments.runs.disk import Disk
from environments.runs.packing import pack
from environments.settings import EnvSettings
from environments.training.group_file import GroupFile, make_folder
from environments.training.group_ledger import GroupLedger
from environments.training.place import run_directory
from judges.llm.errors import UserError


class ServeFiles:
    """Opens the files, and closes them.

    Attributes:
        disk: writes them.
        ledger: the ledger of calls.
        groups: the path of the file of groups; `None` without one.
    """

    def __init__(self, settings: EnvSettings[Any]) -> None:
        """Open the files at the place that the settings name (`place.settle`).

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
            resume=settings.resume,
            disk=self.disk,
        )
        try:
            self._file = GroupFile(self.groups, self.disk, resume=settings.resume) if self.groups is not None else None
            self.ledger = GroupLedger(self._run, keep=self._keeps_calls)
        except UserError:
            self._run.close()
            raise

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
