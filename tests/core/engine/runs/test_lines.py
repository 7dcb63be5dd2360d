"""Whole lines in their order, whatever the disk does."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.engine.runs.lines import DiskFile, LineWriter
from tests.core.engine.runs.full_disk import RefusingDisk

LINES = [b'{"row":%d,"text":"%s"}\n' % (number, b"x" * (number * 7 % 40)) for number in range(20)]
ALL = b"".join(LINES)
ROOT = Path(__file__).resolve().parents[4]


class Faults(list[tuple[Path, int | None]]):
    def __call__(self, path: Path, error: OSError) -> None:
        self.append((path, error.errno))


def test_line_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    path, faults = tmp_path / "file", Faults()
    writer = LineWriter(path, faults)
    offsets = []
    for number, line in enumerate(LINES, start=1):
        offsets.append(writer.append(line))
        assert path.read_bytes() == b"".join(LINES[:number])
    assert [ALL[offset:].partition(b"\n")[0] + b"\n" for offset in offsets] == LINES
    assert (writer.close(), faults) == (0, [])


def test_torn_last_line_of_an_earlier_process_is_cut_before_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(LINES[0] + b'{"row"')
    assert LineWriter(path, Faults()).append(LINES[1]) == len(LINES[0])
    assert path.read_bytes() == LINES[0] + LINES[1]


@pytest.mark.parametrize(
    ("most", "error"),
    [(1, errno.ENOSPC), (7, errno.EDQUOT), (1 << 40, errno.EFBIG), (9, errno.EIO)],
)
def test_disk_that_is_full_at_any_byte_holds_whole_lines_and_the_rest_waits(
    tmp_path: Path, most: int, error: int
) -> None:
    for room in random.Random(0).sample(range(len(ALL)), 20):
        path, faults = tmp_path / f"{room}", Faults()
        disk = RefusingDisk(room, most, error)
        writer = LineWriter(path, faults, disk.open)
        for line in LINES:
            writer.append(line)
        held = path.read_bytes()
        assert ALL.startswith(held)
        assert held.endswith(b"\n") or not held
        assert writer.waiting == len(LINES) - held.count(b"\n") > 0
        assert set(faults) == {(path, error)}
        disk.room = 1 << 40
        assert writer.flush()
        assert path.read_bytes() == ALL


def test_disk_that_cannot_even_cut_is_cut_before_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk = RefusingDisk(room=len(LINES[0]) + 5, truncates=False)
    writer = LineWriter(path, Faults(), disk.open)
    writer.append(LINES[0])
    writer.append(LINES[1])
    disk.room = 1 << 40
    assert not writer.flush()
    assert path.read_bytes() == LINES[0] + LINES[1][:5], "torn, and nothing after it"
    disk.truncates = True
    assert writer.flush()
    assert path.read_bytes() == LINES[0] + LINES[1]


def test_file_that_cannot_be_opened_is_opened_later(tmp_path: Path) -> None:
    path, faults = tmp_path / "file", Faults()
    disk = RefusingDisk(opens=False)
    writer = LineWriter(path, faults, disk.open)
    assert [writer.append(line) for line in LINES[:2]] == [0, len(LINES[0])]
    assert (writer.waiting, len(faults)) == (2, 2)
    disk.opens = True
    assert writer.flush()
    assert path.read_bytes() == LINES[0] + LINES[1]


def test_write_of_nothing_is_a_fault_and_no_endless_loop(tmp_path: Path) -> None:
    class Stuck(DiskFile):
        def write(self, data: bytes) -> int:
            return 0

    faults = Faults()
    writer = LineWriter(tmp_path / "file", faults, Stuck)
    writer.append(LINES[0])
    assert (writer.waiting, faults) == (1, [(tmp_path / "file", errno.EIO)])


def test_closing_tries_once_more_and_counts_what_is_lost(tmp_path: Path) -> None:
    disk = RefusingDisk(room=0)
    writer = LineWriter(tmp_path / "file", Faults(), disk.open)
    for line in LINES[:3]:
        writer.append(line)
    disk.room = len(LINES[0])
    assert writer.close() == 2
    assert (tmp_path / "file").read_bytes() == LINES[0]


def test_limit_of_the_operating_system_on_a_files_size_leaves_whole_lines(tmp_path: Path) -> None:
    """A real EFBIG, after a real short write, at byte n."""
    code = (
        "import resource, sys; from pathlib import Path; from judgegym.engine.runs.lines import "
        "LineWriter\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))\n"
        "writer = LineWriter(Path(sys.argv[1]), lambda path, error: None)\n"
        "for line in sys.stdin.buffer: writer.append(line)\n"
        "print(writer.waiting, flush=True)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, "
        "resource.RLIM_INFINITY))\n"
        "before = Path(sys.argv[1]).read_bytes(); writer.flush()\n"
        "sys.stdout.buffer.write(before)"
    )
    path, limit = tmp_path / "file", len(ALL) // 2
    whole = ALL[: ALL[:limit].rfind(b"\n") + 1]
    assert whole != ALL[:limit], "the limit is in the middle of a line"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(limit)],
        input=ALL, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    waiting, _, before = done.stdout.partition(b"\n")
    assert (int(waiting), before) == (len(LINES) - whole.count(b"\n"), whole)
    assert path.read_bytes() == ALL
