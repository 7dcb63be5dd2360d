"""Run directories: `config.yaml`, `samples.jsonl`, `failures.jsonl`, `metrics.json`.

Guarantees: a finished row is on disk before it is reported; a run is never overwritten; one process at a time uses a
directory (a lock on the file `.lock`); a file is replaced as a whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

import yaml

from environments.metrics import slug
from judges.llm import wire
from judges.llm.errors import RunDirectoryError
from judges.llm.wire import JSON

CONFIG, SAMPLES, FAILURES, METRICS, LOCK = "config.yaml", "samples.jsonl", "failures.jsonl", "metrics.json", ".lock"
ANSWERS = "answers.jsonl"
"""The policy's answers that are not judged yet; removed when the run is finished."""

Line = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class EarlierLines:
    """The lines of an earlier run: finished rows, failed rows, and answers that were not judged."""

    samples: list[Line]
    failures: list[Line]
    answers: list[Line]


def new_path(environment: str, model: str) -> Path:
    """Return `runs/<environment>--<model>--<time>`, with a number if that exists."""
    stem = f"{slug(environment)}--{slug(model)}--{datetime.now():%Y%m%d-%H%M%S}"
    path, again = Path("runs") / stem, 1
    while path.exists():
        again += 1
        path = Path("runs") / f"{stem}-{again}"
    return path


class RunDirectory:
    """The files of one run, locked by this process until `close`."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        """Use `RunDirectory.open`."""
        self.path = path
        self._lock = lock
        self._files: dict[str, IO[bytes]] = {}

    @classmethod
    def open(
        cls, path: Path, *, config: Mapping[str, JSON], matters: Mapping[str, JSON], resume: bool
    ) -> tuple[RunDirectory, EarlierLines]:
        """Begin a run, or resume one.

        Args:
            path: the directory; created if it does not exist.
            config: the content of `config.yaml`.
            matters: the settings, by dotted name, that must be equal to resume a run.
            resume: resume the run in the directory; an empty directory begins a new one.

        Returns:
            The directory, and the lines of the earlier run (none without `resume`).

        Raises:
            RunDirectoryError: the directory is not empty and `resume` is not set; the settings differ; another process
                uses it; a file is damaged elsewhere than in its last line.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / LOCK).open("ab")
        except OSError as error:
            raise RunDirectoryError(f"run directory {path}: {error.strerror}") from error
        try:
            cls._hold(path, lock)
            there = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK)
            if there and not resume:
                raise RunDirectoryError(
                    f"run directory {path} is not empty ({', '.join(there[:4])}); "
                    "add --resume to continue that run, or choose another with --env.data_dir_to_save_evals"
                )
            if (path / CONFIG).exists():
                cls._compare(path / CONFIG, matters)
            before = EarlierLines(*(_read_lines(path / name) for name in (SAMPLES, FAILURES, ANSWERS)))
        except BaseException:  # re-raised; a lock file without a holder would block the next run
            cls._let_go(path, lock)
            raise
        write_atomic(path / CONFIG, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).encode())
        return cls(path, lock), before

    @staticmethod
    def _hold(path: Path, lock: IO[bytes]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunDirectoryError(f"run directory {path} is in use by another process") from None

    @staticmethod
    def _let_go(path: Path, lock: IO[bytes]) -> None:
        """Release the lock and remove its file, unless another process holds it."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (path / LOCK).unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            lock.close()

    @staticmethod
    def _compare(path: Path, matters: Mapping[str, JSON]) -> None:
        try:
            earlier = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise RunDirectoryError(f"{path} cannot be read, so the run cannot be resumed: {error}") from error
        differences = [
            f"{name}: {was!r} then, {value!r} now"
            for name, value in matters.items()
            if (was := wire.lookup(earlier, name)) != value
        ]
        if differences:
            raise RunDirectoryError(
                f"run directory {path.parent} belongs to another configuration; "
                f"--resume needs the same one:\n  " + "\n  ".join(differences)
            )

    def append(self, name: str, line: bytes) -> None:
        """Append a row to one of the run's files; it has reached the operating system when this returns."""
        if name not in self._files:
            self._files[name] = (self.path / name).open("ab", buffering=0)
        self._files[name].write(line)

    def rewrite(self, samples: Iterable[bytes], failures: Iterable[bytes]) -> None:
        """Finish the run: replace its files by these lines, each as a whole or not at all."""
        self._close_files()
        write_atomic(self.path / SAMPLES, b"".join(samples))
        write_atomic(self.path / FAILURES, b"".join(failures))
        (self.path / ANSWERS).unlink(missing_ok=True)

    def write_metrics(self, metrics: Mapping[str, JSON]) -> None:
        """Write `metrics.json`."""
        write_atomic(self.path / METRICS, wire.dumps_readable(metrics))

    def drop_metrics(self) -> None:
        """Remove `metrics.json`, which would not fit the rows of the resumed run."""
        (self.path / METRICS).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files and release the directory."""
        self._close_files()
        self._let_go(self.path, self._lock)

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all: write a temporary file beside it, then rename that."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:  # re-raised, after the temporary file is removed
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the process's file mode mask; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _read_lines(path: Path) -> list[Line]:
    """Read the objects of a JSONL file; remove an incomplete last line, which a killed process leaves."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        write_atomic(path, whole)
    lines: list[Line] = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            value = wire.loads(line)
        except ValueError as error:
            raise RunDirectoryError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(value, Mapping):
            raise RunDirectoryError(f"{path}, line {number}: expected an object")
        lines.append(value)
    return lines
