"""Two processes never hold one directory.

The ids of judged responses are read as they are written.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import (
    DirectoryLock,
    RunDirectory,
    make_response_uid,
    make_row_uid,
    new_path,
    parse_response_uid,
)
from judgegym.engine.runs.lines import RawLine
from judgegym.llm.errors import RunDirectoryError

MATTERS: dict[str, Any] = {
    "env.judge_temperature": 0.2,
    "env.judge_model_name": "a b",
    "env.judge_extra_body": {"a": [1, None]},
    "limit": None,
}


def config_of(matters: dict[str, Any]) -> dict[str, Any]:
    """The file that these settings make, dotted names as sections."""
    config: dict[str, Any] = {}
    for name, value in matters.items():
        *sections, last = name.split(".")
        place = config
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return config


def begin(path: Path, *, resume: bool = False, **changed: Any) -> RunDirectory:
    matters = {**MATTERS, **{name.replace("__", "."): value for name, value in changed.items()}}
    return RunDirectory(path, config=config_of(matters), matters=matters, resume=resume)


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_that_is_no_run_is_not_touched(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "samples.jsonl").write_text("my notes\n")
    with pytest.raises(RunDirectoryError, match=re.escape(str(tmp_path))):
        begin(tmp_path, resume=resume)
    assert (tmp_path / "samples.jsonl").read_text() == "my notes\n"
    assert not (tmp_path / "config.yaml").exists()


@pytest.mark.parametrize(
    "name", ["samples.jsonl", "failures.jsonl", "calls.jsonl", "calls.jsonl.gz"]
)
def test_rows_without_their_settings_are_not_resumed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"uid":"a"}\n')
    with pytest.raises(RunDirectoryError, match=f"holds {re.escape(name)} but no config.yaml"):
        begin(tmp_path, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_resuming_where_no_run_is_begins_one_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(tmp_path / "mistyped", resume=True).close()
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith(f"{tmp_path / 'mistyped'} holds no run") and "new run begins" in said
    caplog.clear()
    begin(tmp_path / "mistyped", resume=True).close()
    assert not caplog.records


def test_a_directory_that_is_not_empty_is_named_with_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(
        RunDirectoryError,
        match=r"not empty \(thesis\.tex\); add --resume .*--env\.data_dir_to_save_evals",
    ):
        begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"env__judge_temperature": 0.3}, r"env\.judge_temperature: 0\.2 then, 0\.3 now"),
        ({"limit": 5}, r"limit: None then, 5 now"),
        ({"env__judge_extra_body": {"a": [1, 2]}}, r"env\.judge_extra_body"),
        ({"env__new": "x"}, r"env\.new: None then, 'x' now"),
        (
            {"env__judge_model_name": "new"},
            r"'a b' then, 'new' now \(give '--env\.judge_model_name=a b'\)",
        ),
        ({"env__judge_temperature": 0.3, "limit": 5}, r"(?s)judge_temperature.*limit"),
    ],
)
def test_settings_that_differ_are_named(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    begin(tmp_path).close()
    before = (tmp_path / "config.yaml").read_bytes()
    with pytest.raises(RunDirectoryError, match=words):
        begin(tmp_path, resume=True, **changed)
    assert (tmp_path / "config.yaml").read_bytes() == before


def test_values_survive_the_file(tmp_path: Path) -> None:
    """Whatever YAML makes of them, the same settings compare as the same."""
    odd = dict(
        zip(
            "abcdefgh",
            ["on", "1e3", 1e-7, "é: #x\n", ["null", None, True], "", 0.1 + 0.2, "~"],
            strict=True,
        )
    )
    begin(tmp_path, **{f"env__{name}": value for name, value in odd.items()}).close()
    begin(tmp_path, resume=True, **{f"env__{name}": value for name, value in odd.items()}).close()


@pytest.mark.parametrize("text", ["env: [", "", "- 1\n", "\x00", "a: \udcff"])
def test_a_damaged_configuration_is_not_taken_up(tmp_path: Path, text: str) -> None:
    begin(tmp_path).close()
    (tmp_path / "config.yaml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RunDirectoryError, match=r"config\.yaml"):
        begin(tmp_path, resume=True)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/dev/null/run", "cannot be used: "),
        ("{tmp}/file/run", "cannot be used: "),
        ("{tmp}/file", "is a file"),
    ],
)
def test_a_place_that_cannot_be_a_directory(tmp_path: Path, place: str, why: str) -> None:
    (tmp_path / "file").write_text("x")
    path = Path(place.format(tmp=tmp_path))
    with pytest.raises(RunDirectoryError, match=re.escape(f"run directory {path} {why}")):
        begin(path)


def test_the_path_of_a_new_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = new_path("arena_hard", "Qwen/Qwen3 8B:free", "claude-4")
    assert re.fullmatch(r"runs/arena_hard--qwen_qwen3_8b_free--claude-4--\d{8}-\d{6}", str(first))
    assert len(new_path("arena_hard", "m" * 300, "j" * 300).name) < 255
    made = set()
    for _ in range(5):  # faster than the clock's seconds
        path = new_path("arena_hard", "m")
        path.mkdir(parents=True)
        made.add(path)
    assert len(made) == 5


def test_directory_in_the_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    begin(tmp_path).close()
    (tmp_path / "samples.jsonl").mkdir()
    run = begin(tmp_path, resume=True)
    with pytest.raises(RunDirectoryError, match=re.escape(str(tmp_path / "samples.jsonl"))):
        list(run.lines("samples.jsonl", RawLine.fields))
    run.close()
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(RunDirectoryError, match=re.escape(str(tmp_path / "config.yaml"))):
        begin(tmp_path, resume=True)


PROCESSES, ROUNDS = 8, 100


def test_released_directory_can_be_taken_and_holds_no_lock_file(tmp_path: Path) -> None:
    for _ in range(2):
        lock = DirectoryLock(tmp_path)
        with pytest.raises(RunDirectoryError, match="is in use"):
            DirectoryLock(tmp_path)
        lock.release()
        assert list(tmp_path.iterdir()) == []


def test_lock_file_that_was_removed_and_made_anew_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder lets go between our opening of the file and our lock: a third process has the new file."""
    holder = DirectoryLock(tmp_path)
    third: list[DirectoryLock] = []
    flock = __import__("fcntl").flock

    def slow(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        holder.release()
        third.append(DirectoryLock(tmp_path))
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", slow)
    with pytest.raises(RunDirectoryError, match="in use"):
        DirectoryLock(tmp_path)
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
            lock = DirectoryLock(directory)
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


def test_ids_count_from_one() -> None:
    assert (make_row_uid(16), make_response_uid(16, 1)) == ("row-17", "row-17/2")


@pytest.mark.parametrize(("row", "number"), [(0, None), (16, None), (0, 0), (999_999, 63)])
def test_an_id_is_read_as_it_was_written(row: int, number: int | None) -> None:
    uid = make_row_uid(row) if number is None else make_response_uid(row, number)
    assert parse_response_uid(uid) == (row, number)


@pytest.mark.parametrize(
    "uid", ["row-0", "row-01", "row-1/0", "row-1/", "row-a", "arena-1", "row-1\n", 1, None]
)
def test_any_other_id_is_none_of_a_response(uid: object) -> None:
    assert parse_response_uid(uid) is None
