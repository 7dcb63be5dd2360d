"""`live.jsonl` of a training run: how it stands, and the groups that a page shows, replaced about once a second.

Guarantees: nothing waits for it, and an error of the disk ends nothing; its size is bounded, and so
is the share of the time that it takes; a reader finds a whole file.

The lines of an earlier process in it and in `monitor.jsonl`, for a run that goes on, and for its
page.
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
"""So often it is written while no group is judged: a page tells a run that waits from one that is gone."""
_SHARE = 0.05
"""Writing takes at most this share of the time."""

Status = Callable[[], Mapping[str, JSON]]
"""How the run stands: `step`, `total_steps`, `sent`, `dropped` by reason, `in_progress`, `unsent`, `waits_for`."""


class LiveFile:
    """Writes the file of one run."""

    def __init__(
        self,
        path: Path,
        groups: Mapping[str, PageGroups],
        status: Status,
        replace: Callable[[Path, bytes], None],
    ) -> None:
        """Write nothing yet.

        Args:
            path: the file.
            groups: the groups that are kept, by the name of the judge; it is empty where a run has
                one judge.
            status: returns how the run stands.
            replace: replaces a file as a whole or not at all; called in a thread.
        """
        self._path, self._groups, self._status, self._replace = path, groups, status, replace
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
        lines = [
            line for judge, page_groups in self._groups.items() for line in page_groups.lines(judge)
        ]
        content = b"".join([wire.dumps({"status": self._facts(is_over)}), b"\n", *lines])
        self._begun += 1
        try:
            await asyncio.to_thread(self._put, self._begun, content)
            self._is_refused = False
        except OSError as error:
            if not self._is_refused:
                logger.warning(
                    "%s cannot be written (it is tried again): %s", self._path, error.strerror
                )
            self._is_refused = True

    def _put(self, number: int, content: bytes) -> None:
        """Write in a thread; one whose waiter was cancelled may come after the next one, and is left out."""
        with self._lock:
            if number > self._written:
                self._replace(self._path, content)
                self._written = number

    def _facts(self, is_over: bool) -> dict[str, JSON]:
        all_groups = self._groups.values()
        failures = sum((page_groups.failures for page_groups in all_groups), Counter[str]())
        return {
            "at": round(time.time(), 3),
            "is_over": is_over,
            "groups": sum(kept.groups for kept in all_groups),
            "rollouts": sum(kept.rollouts for kept in all_groups),
            "failures": dict(failures.most_common()),
            "reasons": {
                status: reason for kept in all_groups for status, reason in kept.reasons.items()
            },
            **self._status(),
        }


def parse_live_line(data: bytes) -> Mapping[str, JSON] | None:
    """Return the object in a line; `None` if there is none, or an empty one."""
    value = wire.loads_or_none(data)
    return value if isinstance(value, Mapping) and value else None


def iter_live_lines(path: Path) -> Iterator[Mapping[str, JSON]]:
    """Return the objects in the lines of a file; those that cannot be read are left out, a missing file has none."""
    if path.exists():
        with path.open("rb") as file:
            yield from filter(None, map(parse_live_line, file))
