"""The page at the end of a command: it is retried while the disk refuses it, and never fails what was paid for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from judgegym.engine.runs import disk as disks
from judgegym.reports.run_page import page
from tests.arena import Arena

WRITES = "--env.write_report=True"


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(2)


def full(error: int = errno.ENOSPC) -> OSError:
    return OSError(error, "No space left on device")


@pytest.mark.slow
def test_a_disk_that_refuses_for_a_while_gets_the_page_later(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, tries = page.write_report, list[Path]()

    def refused_at_first(path: Path) -> Path:
        tries.append(path)
        if len(tries) == 1:
            raise full()
        return writes(path)

    monkeypatch.setattr(page, "write_report", refused_at_first)
    run = arena.evaluate(WRITES)
    assert run.code == 0, run.said
    assert len(tries) == 2 and (run.files.path / "report.html").exists()
    assert "written to: No space left" in run.said


@pytest.mark.parametrize("error", [full(), MemoryError()])
def test_a_page_that_cannot_be_written_is_a_warning(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(path: Path) -> Path:
        raise error

    monkeypatch.setattr(page, "write_report", broken)
    monkeypatch.setattr(disks, "DEADLINE_S", 0.2)
    run = arena.evaluate(WRITES)
    assert run.code == 0, run.said
    assert run.files.metrics["win_rate"] == 1.0
    said = " ".join(run.said.split())
    assert "is not written: " in said
    assert f"python -m judgegym.reports {run.files.path}" in said
    assert "Traceback" not in run.said and "page to read" not in run.said
