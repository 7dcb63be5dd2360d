"""Find the runs in a folder: evaluations, training runs, their evaluations, files of groups.

Guarantees: nothing outside of the folder is found, because symbolic links are not followed. What is
damaged or unreadable is listed with the reason, and hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias

from judgegym.engine.runs.directory import CONFIG, FAILURES, METRICS, SAMPLES, read_settings
from judgegym.engine.runs.log import LOG
from judgegym.llm.errors import RunDirectoryError
from judgegym.monitoring.live_file import LIVE, MONITOR
from judgegym.reports.results.run import SavedRun

_DEEPEST = 4
_RUN_OF_GROUPS, _GROUPS = ".run", ".jsonl"


@dataclass(frozen=True, slots=True)
class SavedGroups:
    """A file of groups, written by `process` or `serve`.

    Attributes:
        path: the file.
        run: the run directory beside it, with the settings.
        date: when the file last changed.
    """

    path: Path
    run: SavedRun
    date: datetime


@dataclass(frozen=True, slots=True)
class SavedTraining:
    """The run directory of a training: of `serve`, `process` or the reward server.

    Attributes:
        path: the directory.
        run: its settings.
        date: when one of its files last changed.
    """

    path: Path
    run: SavedRun
    date: datetime


FoundRun: TypeAlias = "SavedRun | SavedGroups | SavedTraining | UnreadableRun"


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """A run or folder with a damaged or unreadable file, and the reason."""

    path: Path
    reason: str
    date: datetime


def list_runs(folder: Path) -> list[FoundRun]:
    """Read the runs in a folder, the newest first; the folder may be a run directory itself.

    Raises:
        RunDirectoryError: there is no such folder, or it cannot be read.
    """
    runs = [run for path in find_run_paths(folder) if (run := _open_run(path)) is not None]
    return sorted(runs, key=lambda run: (run.date, run.path.name), reverse=True)


def find_run_paths(folder: Path) -> list[Path]:
    """Find the run directories, files of groups and unreadable folders in a folder; read none.

    Raises:
        RunDirectoryError: there is no such folder, or it cannot be read.
    """
    if not folder.is_dir():
        problem = ": there is no such folder"
        if folder.exists():
            problem = " is a file; expected a folder of runs"
        raise RunDirectoryError(f"{folder}{problem}")
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        raise RunDirectoryError(f"{folder} cannot be read: {error.strerror}") from error
    return list(_walk(folder, _DEEPEST))


def _is_searched(entry: Path) -> bool:
    """Return whether an entry is a folder to search: neither hidden nor a link."""
    return entry.name[0] != "." and not entry.is_symlink() and entry.is_dir()


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        is_run, groups = _is_run(folder), None
        if not is_run:  # a run beside a scored file has no file of groups
            groups = _find_groups_file(folder)
        entries = [] if is_run or not depth else sorted(folder.iterdir())
        folders = list(filter(_is_searched, entries))
    except FileNotFoundError:  # it was removed meanwhile
        return
    except OSError:
        yield folder
        return
    if groups is not None:
        yield groups
    if is_run or is_training_run(folder) or (groups is None and _has_begun(folder)):
        yield folder
    for entry in folders:
        yield from _walk(entry, depth - 1)


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (SAMPLES, METRICS, FAILURES))


def _has_begun(folder: Path) -> bool:
    """Return whether a folder is a run without a finished row."""
    return (folder / CONFIG).is_file() and (folder / LOG).is_file()


def is_training_run(path: Path) -> bool:
    """Return whether a directory is the run directory of a training, which has no samples."""
    return any((path / name).is_file() for name in (MONITOR, LIVE)) and not _is_run(path)


def _find_groups_file(folder: Path) -> Path | None:
    """Return the file of groups whose run directory is a folder."""
    if folder.suffix != _RUN_OF_GROUPS or not (folder / CONFIG).is_file():
        return None
    groups = folder.with_suffix(_GROUPS)
    if groups.is_file() and not groups.is_symlink():
        return groups
    return None


def _open_run(path: Path) -> FoundRun | None:
    """Read the run at a path; return `None` if it was removed meanwhile."""
    try:
        date = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except OSError:
        return None
    try:
        if path.is_file():
            return SavedGroups(path, SavedRun.open(path.with_suffix(_RUN_OF_GROUPS)), date)
        if is_training_run(path):
            changed = max(
                (path / name).stat().st_mtime for name in (MONITOR, LIVE) if (path / name).exists()
            )
            return SavedTraining(
                path, _read_settings(path), datetime.fromtimestamp(changed, timezone.utc)
            )
        return SavedRun.open(path)
    except RunDirectoryError as error:
        return UnreadableRun(path, str(error), date)
    except OSError as error:
        return UnreadableRun(path, f"it cannot be read: {error.strerror}", date)


def _read_settings(path: Path) -> SavedRun:
    """Return a training run's settings; the reward server may have written none."""
    return SavedRun(
        path,
        read_settings(path),
        {},
        {},
        datetime.fromtimestamp(path.stat().st_mtime, timezone.utc),
    )
