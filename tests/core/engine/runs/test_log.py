"""`run.log`: what is said in a run, in its own file, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.engine.runs import log as run_logs
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.log import LOG, SEPARATOR, RunLog, begin_logs
from tests.core.engine.runs.full_disk import RefusingDisk

logger = logging.getLogger("judgegym.somewhere")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (.*)")


@pytest.fixture(autouse=True)
def _no_other_run(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave run directories open."""
    run_logs._RUN.set(None)
    run_logs._ROUTER.detach()
    monkeypatch.setattr(run_logs, "_ROUTER", run_logs._Router())
    caplog.set_level(logging.INFO, logger="judgegym")
    caplog.set_level(
        logging.WARNING, logger="datasets"
    )  # where data came by it, only critical ones are said


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    begin_logs(["begun: a test"])
    log = RunLog(tmp_path)
    yield log
    if not log.is_closed:
        log.close()


def lines(directory: Path) -> list[str]:
    """The lines of a log without their times, which each record has."""
    found: list[str] = []
    for line in (directory / LOG).read_text(encoding="utf-8").splitlines():
        stamped = STAMP.fullmatch(line)
        assert stamped or line.startswith("  ") or line == SEPARATOR, line
        found.append(stamped[1] if stamped else line)
    return found


def test_a_log_has_its_heading_our_records_and_warnings_of_libraries(tmp_path: Path) -> None:
    begin_logs(["begun: evaluate", "limit: 8"])
    logger.warning("said while rows are loaded")
    run = RunDirectory(tmp_path, config={}, matters={}, resume=False)
    with run.log.log_end():
        logger.info("%d rows", 7)
        logging.getLogger("httpx").info("not of a library's small talk")
        logging.getLogger("httpx").warning("deprecated")
        logging.getLogger("datasets").error("its records do not reach the root")
        logger.debug("not asked for")
        run.log.write("progress: 3/7")
    run.close()
    logger.warning("said after the run")
    assert lines(tmp_path) == [
        "INFO begun: evaluate",
        "  limit: 8",
        "WARNING said while rows are loaded",
        "INFO 7 rows",
        "WARNING httpx: deprecated",
        "ERROR datasets: its records do not reach the root",
        "INFO progress: 3/7",
        "INFO ended",
    ]


def test_line_that_a_killed_process_has_torn_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("2026-01-01T00:00:00.000+00:00 INFO whole\n2026-01-01T00:00:0")
    RunLog(tmp_path).close()
    assert lines(tmp_path)[:2] == ["INFO whole", SEPARATOR]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no\nsuch thing"), ["ERROR ended by ValueError: no", "  such thing"]),
        (asyncio.CancelledError(), ["WARNING stopped"]),
    ],
)
def test_log_says_how_the_run_ended(
    log: RunLog, tmp_path: Path, error: BaseException, said: list[str]
) -> None:
    with pytest.raises(type(error)), log.log_end():
        raise error
    assert lines(tmp_path)[1:] == said


def test_a_record_is_one_line_and_what_follows_is_indented_and_nothing_reaches_the_terminal(
    log: RunLog, tmp_path: Path
) -> None:
    """A model's text, in a message of an endpoint, must not look like a record nor move the cursor."""
    # Not by the logger: pytest-xdist cannot send a captured record with a lone surrogate to its
    # other process.
    log.write("a\n2026-01-01T00:00:00.000+00:00 INFO forged\x1b[2J\r\x9b \u2028 \ud800")
    assert lines(tmp_path)[1:] == [
        "INFO a",
        "  2026-01-01T00:00:00.000+00:00 INFO forged\\x1b[2J\\r\\x9b \\u2028 \\ud800",
    ]
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("failed")
    assert lines(tmp_path)[3:5] == ["ERROR failed", "  Traceback (most recent call last):"]


async def test_runs_beside_each_other_do_not_write_into_each_others_log(tmp_path: Path) -> None:
    """As `serve` does with its evaluations, whose rows are tasks, and which count in threads."""
    begin_logs(["begun"])
    outer = RunDirectory(tmp_path / "serve", config={}, matters={}, resume=False)
    opened: list[str] = []
    both_are_open = asyncio.Event()

    async def row(name: str) -> None:
        logger.info("row of %s", name)

    async def evaluation(name: str) -> None:
        run = RunDirectory(tmp_path / name, config={}, matters={}, resume=False)
        opened.append(name)
        if len(opened) == 2:
            both_are_open.set()
        await both_are_open.wait()
        await asyncio.gather(
            asyncio.create_task(row(name)), asyncio.to_thread(logger.info, "metrics of %s", name)
        )
        run.close()
        logger.info("%s is done", name)

    await asyncio.gather(evaluation("step-1"), evaluation("step-2"))
    logger.info("of serve")
    thread = threading.Thread(target=lambda: logger.info("of a thread of a library"))
    thread.start()
    thread.join()
    outer.close()
    for name in ("step-1", "step-2"):
        assert sorted(lines(tmp_path / name)) == [
            "INFO begun",
            f"INFO metrics of {name}",
            f"INFO row of {name}",
        ]
    said = lines(tmp_path / "serve")
    assert sorted(said[1:3]) == ["INFO step-1 is done", "INFO step-2 is done"]
    assert said[3:] == ["INFO of serve", "INFO of a thread of a library"]


def test_full_disk_loses_records_says_how_many_and_ends_no_run(
    log: RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RefusingDisk(room=20)
    disk.everywhere(monkeypatch)
    logger.info("torn")
    logger.info("lost")
    disk.room = 1 << 20
    logger.info("there is room again")
    lost, last = (tmp_path / LOG).read_text().splitlines()[1:]
    assert STAMP.sub(r"\1", lost).startswith("WARNING 2 records are lost")
    assert STAMP.sub(r"\1", last) == "INFO there is room again"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any file")
def test_log_that_cannot_be_opened_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / LOG).touch(mode=0o400)
    RunDirectory(tmp_path, config={}, matters={}, resume=True).close()


def test_closed_log_holds_no_handler_of_the_host(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    log = RunLog(tmp_path)
    assert len(logging.getLogger().handlers) == len(before) + 1
    log.close()
    assert logging.getLogger().handlers == before
