"""Two processes never hold one directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from judgegym.engine.runs.directory import DirectoryLock
from judgegym.llm.errors import RunDirectoryError

PROCESSES, ROUNDS = 8, 100


def test_released_directory_can_be_taken_and_holds_no_lock_file(tmp_path: Path) -> None:
    for _ in range(2):
        lock = DirectoryLock.take(tmp_path)
        with pytest.raises(RunDirectoryError, match="in use by another process"):
            DirectoryLock.take(tmp_path)
        lock.release()
        assert list(tmp_path.iterdir()) == []


def test_lock_file_that_was_removed_and_made_anew_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder lets go between our opening of the file and our lock: a third process has the new file."""
    holder = DirectoryLock.take(tmp_path)
    third: list[DirectoryLock] = []
    flock = __import__("fcntl").flock

    def slow(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        holder.release()
        third.append(DirectoryLock.take(tmp_path))
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", slow)
    with pytest.raises(RunDirectoryError, match="in use"):
        DirectoryLock.take(tmp_path)
    third[0].release()


@pytest.mark.slow
def test_many_processes_that_take_and_release_never_hold_it_together(tmp_path: Path) -> None:
    directory, inside = tmp_path / "run", tmp_path / "inside"
    directory.mkdir()
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            os._exit(_take_often(directory, inside))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * PROCESSES, "1: two held it at once"


def _take_often(directory: Path, inside: Path) -> int:
    """In the critical section, create a file that must not exist; return the exit code of the process."""
    taken = 0
    while taken < ROUNDS:
        try:
            lock = DirectoryLock.take(directory)
        except RunDirectoryError:
            os.sched_yield()
            continue
        try:
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            os.sched_yield()
            inside.unlink()
        except FileExistsError:
            return 1
        lock.release()
        taken += 1
    return 0
