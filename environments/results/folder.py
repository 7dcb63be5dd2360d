"""The runs in a folder, at any depth: those of `evaluate`, and the evaluations of `serve`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from environments.results.run import SavedRun
from environments.runs.directory import METRICS, SAMPLES
from judges.llm.errors import RunDirectoryError

_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """A run directory of which a file is damaged, and what is wrong with it."""

    path: Path
    reason: str
    date: datetime


def runs_in(folder: Path) -> list[SavedRun | UnreadableRun]:
    """Read the runs in a folder, the newest first; a folder that is a run directory itself has that one.

    Raises:
        RunDirectoryError: there is no such folder, or it cannot be read.
    """
    if not folder.is_dir():
        raise RunDirectoryError(f"{folder}: there is no such folder")
    try:
        paths = list(_run_directories(folder, _DEEPEST))
    except OSError as error:
        raise RunDirectoryError(f"{folder} cannot be read: {error.strerror}") from error
    return sorted(map(_opened, paths), key=lambda run: (run.date, run.path.name), reverse=True)


def _run_directories(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / SAMPLES).is_file() or (folder / METRICS).is_file():
        yield folder
    elif depth:
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from _run_directories(entry, depth - 1)


def _opened(path: Path) -> SavedRun | UnreadableRun:
    try:
        return SavedRun.open(path)
    except RunDirectoryError as error:
        return UnreadableRun(path, str(error), datetime.fromtimestamp(path.stat().st_mtime, timezone.utc))
