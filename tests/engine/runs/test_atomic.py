"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from judgegym.engine.runs.disk import write_atomic


def test_replace_is_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomic(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["file"], "no neighbour stays behind"


def test_a_reader_that_has_the_old_file_open_sees_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old and long")
    with path.open("rb") as reader:
        assert reader.read(3) == b"old"
        write_atomic(path, b"new")
        assert reader.read() == b" and long"


def test_new_content_is_on_the_disk_before_it_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine may leave an empty file where there was a whole one."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    synced: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((os.pread(descriptor, 9, 0), path.read_bytes())))
    write_atomic(path, b"new")
    assert synced == [(b"new", b"old")]
    assert path.read_bytes() == b"new"


def test_files_have_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", b"")
        assert os.umask(0o027) == 0o027, "the mask is as it was"
    finally:
        os.umask(mask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_content_that_is_made_while_it_is_written(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", lambda: (part for part in (b"a", b"b")))
    assert (tmp_path / "file").read_bytes() == b"ab"


def test_disk_that_refuses_the_sync_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]


def test_what_cannot_be_written_is_named_as_the_caller_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as missing:
        write_atomic(path, b"new")

    def is_full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(OSError, match="No space left") as full:
        write_atomic(tmp_path / "file", b"new")
    assert (missing.value.filename, full.value.filename) == (str(path), str(tmp_path / "file"))


def test_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(path, lambda: [b"one, ", b"two"])
        assert os.read(reader, 100) == b"one, two"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_symbolic_link_stays_one_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, file = tmp_path / "link", tmp_path / "elsewhere" / "file"
    link.symlink_to(file)
    write_atomic(link, b"new")
    assert link.is_symlink() and file.read_bytes() == b"new"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_device_that_is_full_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_atomic(Path("/dev/full"), b"x")
    assert raised.value.filename == "/dev/full"
