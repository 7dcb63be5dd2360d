"""`live.jsonl` of a training run: its status and the groups of its page, updated every second.

Guarantees: nothing waits for it, and a disk error ends nothing; its size is bounded, and so is the
share of time that it takes; a reader always finds a whole file.

This module also reads the lines of an earlier process from it and from `monitor.jsonl`, for a
resumed run and for its page.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.monitoring.kept_groups import PageGroups

logger = logging.getLogger(__name__)

MONITOR, LIVE = "monitor.jsonl", "live.jsonl"
INTERVAL_S = 1.0
_UNCHANGED_S = 5.0
"""Interval of writes while no group is judged: a page can tell a waiting run from a dead one."""
_SHARE = 0.05
"""Maximum share of time spent on writing."""

Status = Callable[[], Mapping[str, JSON]]
"""Status of the run: `step`, `total_steps`, `sent`, `dropped` by reason, `in_progress`, `unsent`,
`waits_for`."""


class LiveFile:
    """Writer of the file of a run."""

    def __init__(
        self,
        path: Path,
        groups: Mapping[str, PageGroups],
        status: Status,
        replace: Callable[[Path, bytes], None],
    ) -> None:
        """Begin without writing.

        Args:
            path: the file.
            groups: the groups of the page by the name of the judge; the name is empty in a run with
                one judge.
            status: returns the status of the run.
            replace: replaces a file as a whole or not at all; called in a thread.
        """
        self._path = path
        self._groups = groups
        self._status = status
        self._replace = replace
        self._is_refused = False
        self._begun = self._written = 0
        self._lock = threading.Lock()

    async def run(self) -> None:
        """Write the file until cancelled."""
        written, at = -1, 0.0
        while True:
            began = time.monotonic()
            groups = sum(page_groups.groups for page_groups in self._groups.values())
            if groups != written or began - at >= _UNCHANGED_S:
                written, at = groups, began
                await self.write()
            await asyncio.sleep(max(INTERVAL_S, (time.monotonic() - began) / _SHARE))

    async def write(self, *, is_over: bool = False) -> None:
        """Write the file once; `is_over`: the run has ended or was stopped."""
        lines: list[bytes] = []
        for judge, page_groups in self._groups.items():
            lines += page_groups.lines(judge)
        content = b"".join([wire.dumps({"status": self._facts(is_over)}), b"\n", *lines])
        self._begun += 1
        try:
            await asyncio.to_thread(self._put, self._begun, content)
            self._is_refused = False
        except OSError as error:
            if not self._is_refused:
                logger.warning(
                    "%s cannot be written (it will be retried): %s", self._path, error.strerror
                )
            self._is_refused = True

    def _put(self, number: int, content: bytes) -> None:
        """Write in a thread; skip a content that is older than the last one written."""
        with self._lock:
            if number > self._written:
                self._replace(self._path, content)
                self._written = number

    def _facts(self, is_over: bool) -> dict[str, JSON]:
        all_groups = self._groups.values()
        failures = sum((page_groups.failures for page_groups in all_groups), Counter[str]())
        reasons: dict[str, JSON] = {}
        for page_groups in all_groups:
            reasons |= page_groups.reasons
        return {
            "at": round(time.time(), 3),
            "is_over": is_over,
            "groups": sum(page_groups.groups for page_groups in all_groups),
            "rollouts": sum(page_groups.rollouts for page_groups in all_groups),
            "failures": dict(failures.most_common()),
            "reasons": reasons,
            **self._status(),
        }


def parse_live_line(data: bytes) -> Mapping[str, JSON] | None:
    """Parse a line's JSON object; `None` if it is invalid, no object, or empty."""
    value = wire.loads_or_none(data)
    if isinstance(value, Mapping) and value:
        return value
    return None


def iter_live_lines(path: Path) -> Iterator[Mapping[str, JSON]]:
    """Yield the objects in the lines of a file; skip unreadable lines; a missing file has none."""
    if path.exists():
        with path.open("rb") as file:
            yield from filter(None, map(parse_live_line, file))
