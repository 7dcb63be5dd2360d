"""The gate that a refusing disk closes, and what becomes of the lines meanwhile.

A file is replaced as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.engine.runs.disk import Disk, DiskFull, write_atomic
from tests.core.engine.runs.full_disk import RefusingDisk

LONG = 60.0


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_gate_is_closed_until_the_lines_of_all_files_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    refusing = RefusingDisk(room=3)
    disk = Disk(retry_s=0.01, open_file=refusing.open)
    first, second = disk.appender(tmp_path / "first"), disk.appender(tmp_path / "second")
    for number in range(4):
        first.append(b"%d\n" % number)
        second.append(b"%d\n" % number)
    assert disk.waiting is not None
    assert re.search(
        r"/(first|second) .*writable for 0 s \(No space left on device\); 7 lines", disk.waiting
    )
    waiters = [asyncio.create_task(disk.ready()) for _ in range(5)]
    await asyncio.sleep(0.1)
    assert not any(waiter.done() for waiter in waiters), "nothing new begins"
    refusing.room = 1 << 20
    await asyncio.wait_for(asyncio.gather(*waiters), LONG)
    assert disk.waiting is None
    assert (
        (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes() == b"0\n1\n2\n3\n"
    )
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, "it is said once that it is full, and once that it is not"
    assert "No space left on device" in said[0] and "No new rows" in said[0]
    assert "written to again" in said[1]


async def test_disk_that_stays_full_ends_the_wait_with_one_message(tmp_path: Path) -> None:
    disk = Disk(0.05, retry_s=0.01, open_file=RefusingDisk(room=0).open)
    disk.appender(tmp_path / "file").append(b"1\n")
    with pytest.raises(
        DiskFull,
        match=r"stopped: .*/file .*writable for .*\(No space .*; 1 lines are kept",
    ):
        await asyncio.wait_for(disk.ready(), LONG)


async def test_lines_that_are_lost_at_the_end_are_counted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(open_file=RefusingDisk(room=2).open)
    writer = disk.appender(tmp_path / "file")
    for line in (b"1\n", b"2\n", b"3\n"):
        writer.append(line)
    assert disk.close() == 2
    said = caplog.records[-1].getMessage()
    assert said.startswith(f"{tmp_path / 'file'}: 2 lines ") and "are lost" in said


async def test_file_that_is_replaced_waits_for_the_disk_and_closes_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    is_full = True

    def replace() -> str:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "written"

    disk = Disk(retry_s=0.01)
    writing = asyncio.create_task(disk.retry_until_written(tmp_path / "file", replace))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(disk.ready())
    await asyncio.sleep(0.1)
    assert disk.waiting is not None
    assert (writing.done(), waiting.done()) == (False, False)
    is_full = False
    assert await asyncio.wait_for(writing, LONG) == "written"
    await asyncio.wait_for(waiting, LONG)
    assert disk.waiting is None


async def test_file_that_can_never_be_replaced_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFull, match=r"/file .*writable for"):
        await asyncio.wait_for(Disk(0.05, retry_s=0.01).write(tmp_path / "file", b"new"), LONG)
    assert list(contents(tmp_path).items()) == [("file", b"old")]


async def test_fault_of_another_kind_is_no_full_disk(tmp_path: Path) -> None:
    def wrong() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await Disk().retry_until_written(tmp_path, wrong)


async def test_write_in_a_thread_holds_no_loop_and_ends_before_its_cancellation(
    tmp_path: Path,
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def content() -> Iterator[bytes]:
        begun.set()
        assert goes_on.wait(LONG)
        yield b"whole"

    writing = asyncio.create_task(Disk().write(tmp_path / "file", content, in_thread=True))
    await asyncio.wait_for(asyncio.to_thread(begun.wait), LONG)
    writing.cancel()
    await asyncio.sleep(0.05)
    assert not writing.done(), "it is not over while its thread writes"
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(writing, LONG)
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_reader_that_has_the_old_file_open_sees_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old and long")
    with path.open("rb") as reader:
        assert reader.read(3) == b"old"
        with pytest.raises(TypeError):
            write_atomic(path, "not bytes")  # type: ignore[arg-type]
        assert path.read_bytes() == b"old and long"
        write_atomic(path, lambda: (part for part in (b"n", b"ew")))
        assert reader.read() == b" and long"
    assert contents(tmp_path) == {"file": b"new"}, "no neighbour stays behind"


def test_new_content_is_on_the_disk_before_it_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine may leave an empty file where there was a whole one."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    synced: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: synced.append((os.pread(descriptor, 9, 0), path.read_bytes())),
    )
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
