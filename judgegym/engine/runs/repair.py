"""Repair a run directory whose files are damaged, so that the run can be resumed.

Guarantees: a file is replaced as a whole or not at all, and what it was stays beside it (`….before_repair`); the run is
locked meanwhile; what is dropped is listed with file and place; a run without damage is not touched.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from judgegym.engine.runs.directory import (
    CONFIG,
    FAILURES,
    METRICS,
    REPORT,
    SAMPLES,
    DirectoryLock,
    read_settings,
    run_directory_of,
)
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS
from judgegym.engine.runs.salvage import (
    CALL_BEGINS,
    GROUP_BEGINS,
    SAMPLE_BEGINS,
    CheckLine,
    DroppedLines,
    LedgerCheck,
    readable_lines,
    unpacked_lines,
)
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError

_KEPT = ".before_repair"
_TRAIN_METRICS = "train_metrics.json"


@dataclass(slots=True)
class Repair:
    """What was done to a run.

    Attributes:
        run: the run directory.
        groups: the file of groups beside it, if it has one.
        dropped: what was dropped of each file.
        kept: the originals, under the names that they have now.
        rows: at least so many rows have lost their lines.
        calls: about so many answers are lost.
        lost_texts: so many calls are without the messages that they were asked.
    """

    run: Path
    groups: Path | None
    dropped: dict[Path, DroppedLines] = field(default_factory=dict)
    kept: list[Path] = field(default_factory=list)
    rows: int = 0
    calls: int = 0
    lost_texts: int = 0


def find_run(path: Path) -> tuple[Path, Path | None]:
    """Return the run directory that a path names, and the file of groups beside it, if it has one.

    Args:
        path: a run directory, or a file of `score` or `process` with its run directory beside it.

    Raises:
        RunDirectoryError: there is no run, or its settings cannot be read.
    """
    run = path if path.is_dir() else run_directory_of(path)
    if not (run / CONFIG).is_file():
        raise RunDirectoryError(
            f"{path} is no run: expected a run directory with its {CONFIG}, or a file of score or process with its run "
            "directory beside it. Without that file nothing says with which settings the run was made"
        )
    named = wire.lookup(dict(read_settings(run)), "env.data_path_to_save_groups")
    groups = run.parent / Path(named).name if isinstance(named, str) else None
    return run, groups if groups is not None and run_directory_of(groups) == run and groups.exists() else None


def repair(path: Path, check_sample: Callable[[Path], CheckLine]) -> Repair:
    """Drop what cannot be read of a run, and keep the rest.

    Args:
        path: see `find_run`.
        check_sample: gives for a run directory the check of a line of its samples.

    Raises:
        RunDirectoryError: there is no run, its settings cannot be read, or another process uses it.
        OSError: a file cannot be read or written; the others are as they were, or repaired.
    """
    run, groups = find_run(path)
    done = Repair(run, groups)
    lock = DirectoryLock.take(run)
    try:
        failed = _repair_samples(done, check_sample(run))
        _repair_ledger(done, failed)
        if groups is not None:
            _repair_lines(done, groups, GROUP_BEGINS, lambda line: None)
        for name in (METRICS, _TRAIN_METRICS):
            _set_aside_damaged(done, run / name)
    finally:
        lock.release()
    return done


def _repair_samples(done: Repair, check: CheckLine) -> set[str]:
    """Repair the samples; return the uids of rows that failed. Results that no longer fit are set aside."""
    failed = set[str]()

    def check_failure(line: bytes) -> None:
        check(line)
        failed.add(str(wire.lookup(wire.loads(line), "uid")))

    for name, check_line in ((SAMPLES, check), (FAILURES, check_failure)):
        found = _repair_lines(done, done.run / name, SAMPLE_BEGINS, check_line)
        done.rows += len(found.places)
    if done.rows:
        for name in (METRICS, REPORT):
            _set_aside(done, done.run / name)
    return failed


def _repair_ledger(done: Repair, failed: Iterable[str]) -> None:
    """Repair the ledger; a compressed one becomes a plain one."""
    plain, packed = done.run / CALLS, done.run / PACKED_CALLS
    path = plain if plain.exists() else packed
    if not path.exists():
        return

    def lines(dropped: DroppedLines) -> Iterator[bytes]:
        return unpacked_lines(packed, dropped) if path == packed else _lines(plain)

    found, checked = DroppedLines(), LedgerCheck()
    for _ in readable_lines(lines(found), CALL_BEGINS, checked.check, found):
        pass
    if not found.places:
        return
    done.dropped[path] = found
    done.calls = len(checked.unanswered)
    marks = {part for uid in failed for part in (uid, uid.partition("/")[0])} - checked.failed

    def content() -> Iterator[bytes]:
        again, texts = DroppedLines(), LedgerCheck()
        for line in readable_lines(lines(again), CALL_BEGINS, texts.check, again):
            yield texts.rewritten(line)
        for uid in sorted(marks):  # the mark of a row that failed may be among what is lost
            yield wire.dumps({"row_failed": uid, "group": None}) + b"\n"
        done.lost_texts = texts.lost_texts

    _keep(done, path)
    write_atomic(plain, content)
    packed.unlink(missing_ok=True)


def _repair_lines(done: Repair, path: Path, begins: re.Pattern[bytes], check: CheckLine) -> DroppedLines:
    """Repair a file whose lines do not depend on each other."""
    found = DroppedLines()
    for _ in readable_lines(_lines(path), begins, check, found):
        pass
    if found.places:
        done.dropped[path] = found
        _keep(done, path)
        write_atomic(path, lambda: readable_lines(_lines(path), begins, check, DroppedLines()))
    return found


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        return


def _set_aside_damaged(done: Repair, path: Path) -> None:
    """Set a file aside that is written anew when the run is resumed, and is no JSON."""
    try:
        wire.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except ValueError as error:
        done.dropped[path] = DroppedLines(0, [f"not JSON: {' '.join(str(error).split())}"])
        _set_aside(done, path)


def _set_aside(done: Repair, path: Path) -> None:
    if path.exists():
        _keep(done, path)
        path.unlink()


def _keep(done: Repair, path: Path) -> None:
    """Keep a file under another name beside it."""
    number, kept = 1, path.with_name(f"{path.name}{_KEPT}")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}{_KEPT}_{number}")
    try:
        os.link(path, kept)
    except OSError:  # a file system without links
        shutil.copy2(path, kept)
    done.kept.append(kept)
