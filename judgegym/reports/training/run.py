"""Read a training run from disk while it grows: `monitor.jsonl` and `live.jsonl`.

Guarantees: nothing in the directory is changed, and no lock is taken. Only new data is read. Memory
is bounded, whatever the run's length. A line that is damaged or half written affects no other line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from judgegym.engine.runs.directory import read_settings
from judgegym.engine.runs.lines import LOCK
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON, mapping_or_empty, text_or_empty
from judgegym.monitoring.group import add_costs
from judgegym.monitoring.live_file import LIVE, MONITOR, parse_live_line
from judgegym.reports.training.history import MonitorHistory, parse_number

MOST_ALARMS = 50
MOST_JUDGES = 16
_PART = 1 << 20
_LONGEST_LINE = 1 << 26
_START = 140
_SILENT_S = 60.0
_MOST_ROWS = 60
_NUMBERS = ("step", "total_steps", "groups", "sent", "rollouts", "in_progress", "unsent")
_HEAD = ("number", "step", "uid", "ledger", "kept", "size", "rewards", "scores", "gold")


class TrainingRun:
    """A training's run directory; `poll` reads new data.

    Attributes:
        path: the directory.
        histories: the charts by judge: in the reward server by the name of its mount; elsewhere
            the name is empty.
        alarms: the last alarms, the latest first.
        alarm_count: the number of all alarms.
        damaged: the number of lines that could not be read.
    """

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self._config: Mapping[str, JSON] = {}
        self._begin()

    def _begin(self) -> None:
        self.histories: dict[str, MonitorHistory] = {}
        self.alarms: list[Mapping[str, JSON]] = []
        self.alarm_count = self.damaged = 0
        self._pause: Mapping[str, JSON] = {}
        self._is_ended = False
        self._offset, self._file, self._partial_line, self._last_at = 0, (0, 0), b"", 0.0
        self._live: tuple[int, int, int] | None = None
        self._status: Mapping[str, JSON] = {}
        self._groups: dict[str, bytes] = {}
        self._heads: list[dict[str, JSON]] = []

    def poll(self) -> bool:
        """Read what was written since the last call; return whether there was anything.

        Raises:
            RunDirectoryError: a file cannot be read.
        """
        try:
            if not self._config:
                self._config = read_settings(self.path)
            return self._read_monitor() | self._read_live()
        except OSError as error:
            raise RunDirectoryError(
                f"{error.filename or self.path} cannot be read: {error.strerror}"
            ) from error

    def _read_monitor(self) -> bool:
        path, is_new = self.path / MONITOR, False
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return False
        with file:
            state = os.fstat(file.fileno())
            if self._offset and (
                (state.st_dev, state.st_ino) != self._file or state.st_size < self._offset
            ):
                self._begin()  # the file was replaced
            self._file = state.st_dev, state.st_ino
            file.seek(self._offset)
            while part := file.read(_PART):
                is_new = True
                self._offset += len(part)
                *lines, self._partial_line = (self._partial_line + part).split(b"\n")
                for line in lines:
                    self._add(line)
                if len(self._partial_line) > _LONGEST_LINE:
                    self._partial_line = b""
        return is_new

    def _add(self, data: bytes) -> None:
        line = parse_live_line(data)
        if line is None:
            self.damaged += 1
            return
        judge = text_or_empty(line.get("judge"))
        if judge not in self.histories and len(self.histories) >= MOST_JUDGES:
            return
        self.histories.setdefault(judge, MonitorHistory()).add(line)
        self._is_ended = "end" in line
        if alarm := mapping_or_empty(line.get("alarm")):
            self.alarm_count += 1
            self.alarms = [
                {"judge": judge, "at": line.get("at"), **alarm},
                *self.alarms[: MOST_ALARMS - 1],
            ]
        if "pause" in line:
            self._pause = mapping_or_empty(line["pause"])
        self._last_at = parse_number(line.get("at")) or self._last_at

    def _read_live(self) -> bool:
        path = self.path / LIVE
        try:
            state = path.stat()
            identity = state.st_ino, state.st_size, state.st_mtime_ns
            if identity == self._live:
                return False
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return False
        self._live, self._groups, self._heads = identity, {}, []
        for data in lines:
            line = parse_live_line(data)
            if line is None:
                self.damaged += 1
            elif "status" in line:
                self._status = mapping_or_empty(line["status"])
            elif (group := mapping_or_empty(line.get("group"))) and isinstance(
                number := group.get("number"), int
            ):
                judge = text_or_empty(group.get("judge"))
                group_id = f"{crc32(judge.encode('utf-8', 'replace')):x}-{number}"
                self._groups[group_id] = data
                start = wire.shorten(text_or_empty(group.get("question")), _START)
                head = {name: group.get(name) for name in _HEAD}
                self._heads.append({"id": group_id, "judge": judge, **head, "start": start})
        return True

    @property
    def group_ids(self) -> list[str]:
        """The ids of the kept groups: a digest of the judge's name, and the group's number."""
        return list(self._groups)

    def group(self, group_id: str) -> Mapping[str, JSON] | None:
        """Return a kept group with its texts; `None` if it is not kept."""
        line = parse_live_line(self._groups.get(group_id, b""))
        if line is None:
            return None
        return mapping_or_empty(line.get("group"))

    def state(self) -> dict[str, Any]:
        """Return the state for the page; its size is bounded."""
        histories, status = self.histories, self._status
        gold_judges = sum(bool(history.gold_judge) for history in histories.values())
        costs: dict[str, float | None] = {}
        for judge_history in histories.values():
            add_costs(costs, judge_history.costs)
        return {
            "title": self.path.resolve().name,
            "standing": self._describe_standing(),
            "at": self._written_at or None,
            "numbers": self._numbers(),
            "costs": costs,
            "waits_for": text_or_empty(status.get("waits_for")),
            "policy": text_or_empty(wire.lookup(self._config, "openai.model_name")),
            "alarms": self.alarms,
            "alarm_count": self.alarm_count,
            "judges": [
                {"name": name, **histories[name].state(gold_judges)} for name in sorted(histories)
            ],
            "failures": list(mapping_or_empty(status.get("failures")).items())[:_MOST_ROWS],
            "reasons": mapping_or_empty(status.get("reasons")),
            "dropped": list(mapping_or_empty(status.get("dropped")).items())[:_MOST_ROWS],
            "groups": self._heads,
            "damaged": self.damaged,
        }

    def _describe_standing(self) -> str:
        """Return whether the run is in progress; the run of a killed process looks silent."""
        if self._is_ended or self._status.get("is_over") is True:
            return "ended"
        if self._pause.get("state") == "paused":
            return "paused"
        last = self._written_at
        if not last or time.time() - last <= _SILENT_S:  # a live run writes every few seconds
            return "training"
        if (self.path / LOCK).exists():
            return "silent"
        return "stopped"

    @property
    def _written_at(self) -> float:
        """When a file of the run was last written; 0 if unknown."""
        return max(self._last_at, parse_number(self._status.get("at")) or 0.0)

    def _numbers(self) -> dict[str, float | None]:
        """Return the progress of the run; unknown numbers are `None`."""
        numbers = {name: parse_number(self._status.get(name)) for name in _NUMBERS}
        histories = self.histories.values()
        if numbers["step"] is None:
            numbers["step"] = max((history.step for history in histories), default=0)
        for name in ("groups", "rollouts"):
            numbers[name] = max(
                numbers[name] or 0, sum(getattr(history, name) for history in histories)
            )
        return numbers
