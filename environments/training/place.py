"""Where a `serve` writes: its run directory, its file of groups, and the directories of its evaluations.

The run directory is beside the file of groups if there is one. Else it is the directory that is named for the
evaluations, or a new one. Each evaluation during training has a directory `step-<n>` of its own in that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from environments.settings import EnvConfig, EnvSettings
from environments.training.group_file import free_path, run_directory_of
from judges.llm.errors import RunDirectoryError


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
