"""Run directories: their files, their lock, and the ids of rows and responses.

Files: `config.yaml`, `samples.jsonl`, `failures.jsonl`, `metrics.json`, `report.html`, `run.log`,
the ledger of calls, the list of uploaded batches and, while the run goes on, the lock.

Guarantees: a finished row is on disk before it is reported; a run is never overwritten; only one
process at a time uses a directory; files are replaced atomically, and a full disk loses nothing
(`disk.py`).

The lock guarantees that two processes never hold one directory, in whatever order they open, lock
and remove the lock file. The kernel frees the lock of a killed process.

In a run of `judgegym score` the ids of responses are `row-17`, or `row-17/2` for the second
response of a row. Rows and responses are numbered from 0 in memory, and from 1 in an id.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import yaml
from pydantic import BaseModel

from judgegym.engine.runs.damaged_lines import Loss, ReadLine, T, mend_lines
from judgegym.engine.runs.disk import Disk, write_atomic
from judgegym.engine.runs.lines import LOCK, LineWriter, RawLine
from judgegym.engine.runs.log import RunLog
from judgegym.engine.runs.recorded_calls import BATCHES, CALLS, PACKED_CALLS
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.explaining import suggest_settings
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.config.removed_values import (
    find_unknown_settings,
    locate_in_file,
    refusals,
    take_removed,
)
from judgegym.judges.core.naming import file_part
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON


class DirectoryLock:
    """A lock of a directory, held until `release`."""

    def __init__(self, directory: Path) -> None:
        """Create the directory and its lock file if necessary, and lock it.

        A process removes the file when it releases the lock. Another one that opened the file
        before that may have locked a deleted file, so it checks this after locking and retries.

        Raises:
            RunDirectoryError: another process holds the directory, or the file cannot be created.
        """
        self._path, self._descriptor = directory / LOCK, -1
        while True:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same_file(self._descriptor, self._path):
                    return
            except OSError as error:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                if isinstance(error, BlockingIOError):
                    reason = "is in use by another process"
                elif directory.is_file():
                    reason = "is a file; expected a folder"
                else:
                    reason = f"cannot be used: {error.strerror}"
                raise RunDirectoryError(f"run directory {directory} {reason}") from error
            os.close(self._descriptor)
            self._descriptor = -1

    def release(self) -> None:
        """Remove the lock file, while it is held, and unlock it."""
        self._path.unlink(missing_ok=True)
        fcntl.flock(
            self._descriptor, fcntl.LOCK_UN
        )  # closing is not enough if a forked child has the descriptor, too
        os.close(self._descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


logger = logging.getLogger(__name__)

CONFIG, SAMPLES, FAILURES, METRICS = (
    "config.yaml",
    "samples.jsonl",
    "failures.jsonl",
    "metrics.json",
)
REPORT = "report.html"
_LOST_ROWS: Loss = ("row", "will be judged again")
_LOSSES: Mapping[str, Loss] = {
    SAMPLES: _LOST_ROWS,
    FAILURES: _LOST_ROWS,
    CALLS: ("answer", "will be asked for again if a row needs it"),
    BATCHES: ("upload", "may be unknown now, and its requests be sent again"),
}
"""For the warning about damaged lines: what a line of the file is, and what its loss means."""


def read_settings(run: Path) -> Mapping[str, JSON]:
    """Return the settings in a run's `config.yaml`; empty if there is none.

    Raises:
        RunDirectoryError: they cannot be read.
    """
    path = run / CONFIG
    try:
        settings = load_yaml(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, Mapping):
        raise RunDirectoryError(f"{path}: expected the settings of a run, by name")
    return {str(name): value for name, value in settings.items()}


def _drop_removed(run: Path, earlier: Mapping[str, JSON], settings: BaseModel) -> dict[str, JSON]:
    """Return the settings of a resumed run without those that this version no longer has.

    Raises:
        RunDirectoryError: a removed setting had another value than the one that is now constant, or
            a name is unknown.
    """
    model, file = expand_choices(type(settings)), run / CONFIG
    remaining, taken = take_removed(model, earlier)
    problems = refusals(locate_in_file(taken, file), settings, prefix="")
    unknown = find_unknown_settings(model, remaining)
    for name in unknown:
        suggestion = suggest_settings(model, name)
        problems.append(f"{name} ({file}): unknown setting{suggestion}")
    if problems:
        listed = "\n  ".join(problems)
        raise RunDirectoryError(
            f"run directory {run} was made with settings that this version does not have, so that "
            f"it cannot continue as it began:\n  {listed}"
        )
    return remaining


def _config_file(run: Path, config: Mapping[str, JSON]) -> bytes:
    """Return the bytes of `config.yaml`, which can be read back as the same settings.

    Raises:
        RunDirectoryError: a setting or the directory's name has bytes that are not UTF-8, which no
            file of a run can hold.
    """
    for name, text in [("the run directory's name", str(run)), *_texts(config)]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raw = os.fsencode(text)
            raise RunDirectoryError(
                f"{name}: {raw!r} is not UTF-8, so that it cannot be written to the run's files; "
                "expected UTF-8 (rename the file if it is a file's name)"
            ) from None
    written = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).encode()
    if written.isascii() or load_yaml(written) == config:
        return written
    return yaml.safe_dump(
        dict(config), sort_keys=False
    ).encode()  # U+0085, which YAML reads as a line break


def _texts(value: JSON, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of the settings with its dotted name."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{name}.{number}")


def _hint_old_model(name: str, was: JSON) -> str:
    """Return how to keep a run's model after the default has changed; empty for other settings."""
    is_model = isinstance(was, str) and name.rpartition(".")[2].endswith("model_name")
    if is_model:
        argument = shlex.quote(f"--{name}={was}")
        return f" (give {argument})"
    return ""


_RUN_FILES = (SAMPLES, FAILURES, CALLS, PACKED_CALLS)
_LONGEST_NAME = 70
"""Keeps the directory's name within the 255 bytes of a file system.

Three names of 70, `serve`, the time and the separators are 238.
"""


def new_path(*parts: str) -> Path:
    """Return a new `runs/<environment>--<model>--<judge>--<time>`, numbered if it exists.

    Long names are cut.

    Args:
        parts: the names; for `serve` they begin with the verb.
    """
    names = "--".join(file_part(name)[:_LONGEST_NAME] for name in parts)
    stem = f"{names}--{datetime.now():%Y%m%d-%H%M%S}"
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path


def locate_run_directory(path: Path) -> Path:
    """Return the run directory of an output file: the same path with the ending `.run`.

    Such files hold scored rows, or the groups of a training run.
    """
    return path.with_suffix(".run")


def check_unused(path: Path, path_setting: str) -> None:
    """Check that a directory holds no run.

    Args:
        path: the directory, which need not exist.
        path_setting: the setting that chooses another directory, for the message.

    Raises:
        RunDirectoryError: it is not empty.
    """
    entries = _entries(path)
    if entries:
        names = ", ".join(entries[:4])
        raise RunDirectoryError(
            f"run directory {path} is not empty ({names}); add --resume to continue that run, or "
            f"choose another with {path_setting}"
        )


def _entries(path: Path) -> list[str]:
    """Return the names in a directory, except its lock."""
    if path.is_dir():
        return sorted(entry.name for entry in path.iterdir() if entry.name != LOCK)
    return []


class RunDirectory:
    """The files of one run, locked by this process until `close`.

    Attributes:
        path: the directory.
        disk: writes the files.
        log: the log of the task that has opened the directory, and of the tasks that it starts.
        damage: the number of damaged lines, or parts, in each of its files.
    """

    def __init__(
        self,
        path: Path,
        *,
        config: Mapping[str, JSON],
        matters: Mapping[str, JSON],
        resume: bool,
        disk: Disk | None = None,
        defaults: Mapping[str, JSON] = {},
        settings: BaseModel | None = None,
        path_setting: str = "--env.data_dir_to_save_evals",
    ) -> None:
        """Begin a run, or resume one.

        Args:
            path: the directory; created if it does not exist.
            config: the content of `config.yaml`.
            matters: the settings, by dotted name, that must have the same values when the run is
                resumed.
            resume: whether to resume the run in the directory; an empty directory starts a new run.
            disk: writes the files of the run.
            defaults: the values of settings that an older run's `config.yaml` lacks.
            settings: all settings of the run; unknown names in its `config.yaml` are refused.
            path_setting: the setting that chooses another directory, for messages.

        Raises:
            RunDirectoryError: the directory is not empty and `resume` is not set; the settings
                differ, or the run has an unknown one; another process uses it; its settings are
                missing; it is not writable.
        """
        self.path, self.disk, self._lock = path, disk or Disk(), DirectoryLock(path)
        self._writers: dict[str, LineWriter] = {}
        self.damage = Counter[str]()
        try:
            entries = _entries(path)
            if not resume:
                check_unused(path, path_setting)
            if (path / CONFIG).exists():
                self._compare(path, matters, defaults, settings)
            elif lines := [name for name in entries if name in _RUN_FILES]:
                names = ", ".join(lines)
                raise RunDirectoryError(
                    f"run directory {path} holds {names} but no {CONFIG}, so the run cannot be "
                    "resumed: nothing says with which settings it was made"
                )
            elif resume:
                logger.warning(
                    "%s holds no run: there is nothing to resume, so a new run begins", path
                )
            write_atomic(path / CONFIG, _config_file(path, config))
        except OSError as error:
            self._lock.release()
            raise RunDirectoryError(
                f"run directory {path} cannot be used: {error.strerror}"
            ) from error
        except BaseException:  # re-raised; the directory is free again
            self._lock.release()
            raise
        self.log = RunLog(path)

    @staticmethod
    def _compare(
        path: Path,
        matters: Mapping[str, JSON],
        defaults: Mapping[str, JSON],
        settings: BaseModel | None,
    ) -> None:
        stored = read_settings(path)
        earlier: JSON = dict(stored) if settings is None else _drop_removed(path, stored, settings)
        differences = []
        for name, value in matters.items():
            was = wire.lookup(earlier, name, defaults.get(name))
            if was != value:
                hint = _hint_old_model(name, was)
                differences.append(f"{name}: {was!r} then, {value!r} now{hint}")
        if differences:
            listed = "\n  ".join(differences)
            raise RunDirectoryError(
                f"run directory {path} belongs to another configuration; "
                f"--resume needs the same one:\n  {listed}"
            )

    def lines(self, name: str, read: ReadLine[T]) -> Iterator[tuple[RawLine, T]]:
        """Read the lines of one of the run's files, and mend the file if necessary.

        Raises:
            RunDirectoryError: it cannot be read.
        """
        damaged_count = yield from mend_lines(self.path / name, read, _LOSSES[name], salvage=True)
        self.damage[name] += damaged_count

    def writer(self, name: str) -> LineWriter:
        """Return the writer of one of the run's files of lines."""
        if name not in self._writers:
            self._writers[name] = self.disk.appender(self.path / name)
        return self._writers[name]

    async def rewrite(
        self, samples: Callable[[], Iterable[bytes]], failures: Callable[[], Iterable[bytes]]
    ) -> None:
        """Finish the run: replace its files by these lines, each as a whole or not at all.

        Raises:
            DiskFull: the disk stayed full for too long; the files keep the appended lines.
        """
        await self.disk.ready()
        for writer in self._writers.values():
            writer.close()  # the next line, if there is one, goes to the new file
        await self.disk.write(self.path / SAMPLES, samples, in_thread=True)
        await self.disk.write(self.path / FAILURES, failures, in_thread=True)

    async def write_metrics(self, metrics: Mapping[str, JSON]) -> None:
        """Write `metrics.json`.

        Raises:
            DiskFull: the disk stayed full for too long.
        """
        await self.disk.write(self.path / METRICS, wire.dumps_readable(metrics))

    def drop_results(self) -> None:
        """Remove `metrics.json` and the run's page, which would not fit the resumed run."""
        for name in (METRICS, REPORT):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files and release the directory."""
        self.disk.close()
        self.log.close()
        self._lock.release()


_UID = re.compile(r"row-([1-9][0-9]*)(?:/([1-9][0-9]*))?")


def make_row_uid(row: int) -> str:
    """Return the id of a row, which is also that of its only response."""
    return f"row-{row + 1}"


def make_response_uid(row: int, number: int) -> str:
    """Return the id of one of a row's several responses."""
    return f"{make_row_uid(row)}/{number + 1}"


def parse_response_uid(uid: object) -> tuple[int, int | None] | None:
    """Return a response's row, and its number if the row has several; `None` for other ids."""
    match = None
    if isinstance(uid, str):
        match = _UID.fullmatch(uid)
    if match is None:
        return None
    return (int(match[1]) - 1, None if match[2] is None else int(match[2]) - 1)
