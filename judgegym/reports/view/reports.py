"""Find or make the reports of runs: the run directory's file if it is up to date, or a new one.

Guarantees: nothing in the run directory is changed, so read-only folders work. A report is made
once for each state of its files. Only pages of this version of the package, with its own scripts,
are served. A file that somebody has planted in a run directory, with such a page's policy, cannot
run scripts, leave the page by itself, or send requests to another machine.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from judgegym.engine.runs.directory import CONFIG, FAILURES, METRICS, SAMPLES, locate_run_directory
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS
from judgegym.reports.run_page.page import locate_report, render_page, write_report

ResultT = TypeVar("ResultT")

State: TypeAlias = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of the files from which a report is made."""

_PARTS = ("first_facts", "facts", "notices", "charts", "tables")
_READ = (SAMPLES, FAILURES, METRICS, CONFIG, CALLS, PACKED_CALLS)
_NEWER = (SAMPLES, FAILURES, METRICS)
_META_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"<>]*)">')
_POLICY_WITHIN = 20_000
_PART = 1 << 20
_LONGEST = 16
_LEADS_AWAY = re.compile(
    rb"<(?:meta|link|base|form|area|embed|frame|iframe|object|portal|video|audio)(?![a-z])", re.I
)
"""Elements that a page has only in its head, since its texts and data have no `<`; some of them
load content or leave the page whatever the policy says."""


def read_content_policy(page: bytes) -> str | None:
    """Return the content security policy at the beginning of a document; `None` without one."""
    match = _META_POLICY.search(page[:_POLICY_WITHIN])
    if match is None:
        return None
    return unescape(match[1].decode("ascii", "replace"))


@lru_cache
def report_policy() -> str:
    """Return the content security policy of this version's reports, with their scripts' digests."""
    policy = read_content_policy(_empty_page())
    assert policy is not None, "documents begin with it"
    return policy


@lru_cache
def _empty_page() -> bytes:
    """Return the page of a run without rows."""
    nothing = dict.fromkeys(("title", "headline"), "") | dict.fromkeys(_PARTS, ())
    return b"".join(render_page({"kind": "rows", "total": 0, **nothing}, []))


class Reports:
    """Makes reports while the command runs."""

    def __init__(self, folder: Path) -> None:
        """Write reports into a folder."""
        self._folder = folder
        self._made: dict[str, State] = {}
        self._write_slot = asyncio.Semaphore(1)  # each holds the calls of the rows on its page

    async def report_path(self, key: str, path: Path) -> Path:
        """Return the file of a report, and make it if necessary.

        Args:
            key: the id of the run.
            path: its directory, or the file of groups.

        Raises:
            RunDirectoryError: a file of the run is damaged.
            OSError: there is no room for the report.
        """
        if await in_thread(lambda: _is_current(path)):
            return locate_report(path)
        target = self._folder / f"{key}.html"
        if self._made.get(key) == _files_state(path):
            return target
        async with self._write_slot:
            state = _files_state(path)
            if self._made.get(key) != state:
                await in_thread(lambda: write_report(path, output=target))
                self._made[key] = state
        return target


def _is_current(path: Path) -> bool:
    """Return whether the run has a report of this version that is not older than its files."""
    report = locate_report(path)
    try:
        if report.is_symlink() or not report.is_file():
            return False
        sources = [path]
        if not path.is_file():
            sources = [path / name for name in _NEWER if (path / name).exists()] or [path]
        made = report.stat().st_mtime_ns
        if made < max(source.stat().st_mtime_ns for source in sources):
            return False
        with report.open("rb") as file:
            return read_content_policy(
                file.read(_POLICY_WITHIN)
            ) == report_policy() and _leads_nowhere(file)
    except OSError:
        return False


def _leads_nowhere(file: BinaryIO) -> bool:
    """Return whether no element of a page, beyond those of its head, could lead away from it."""
    file.seek(0)
    count, end = 0, b""
    while part := file.read(_PART):
        text = end + part
        count += sum(match.start() < len(text) - _LONGEST for match in _LEADS_AWAY.finditer(text))
        end = text[-_LONGEST:]  # an element that begins here may continue in the next part
    return count + len(_LEADS_AWAY.findall(end)) == len(_LEADS_AWAY.findall(_empty_page()))


def _files_state(path: Path) -> State:
    folder = locate_run_directory(path) if path.is_file() else path
    entries = []
    for file in (*([path] if path.is_file() else []), *(folder / name for name in _READ)):
        with suppress(OSError):
            entries.append((file.name, file.stat().st_size, file.stat().st_mtime_ns))
    return tuple(entries)


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Run work in a daemon thread, which ends with the process, unlike `asyncio.to_thread`'s."""
    result: Future[ResultT] = Future()
    result.set_running_or_notify_cancel()  # a cancelled caller does not cancel the work

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)
