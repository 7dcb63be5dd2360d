"""A training run as it lies on disk, read on as it grows: `monitor.jsonl` and `live.jsonl`.

Guarantees: nothing in the directory is changed, and no lock is taken; only what is new is read; memory is bounded,
whatever the run's length; a line that is damaged or half written spoils no other one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from judgegym.engine.runs.directory import LOCK, read_settings
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON
from judgegym.monitoring.live_file import LIVE, MONITOR, line_of
from judgegym.reports.results.run import mapping_of, text_of
from judgegym.reports.training.history import MonitorHistory

MOST_ALARMS = 50
MOST_JUDGES = 16
_PART = 1 << 20
_LONGEST_LINE = 1 << 26
_START = 140
_SILENT_S = 60.0
_HEAD = ("number", "step", "uid", "ledger", "kept", "size", "rewards", "scores", "gold")


class TrainingRun:
    """One run directory; `poll` reads what is new.

    Attributes:
        path: the directory.
        histories: by the name of the judge: in the reward server that of its mount; empty elsewhere.
        alarms: the last ones, the latest first.
        alarm_count: how many there were.
        damaged: lines that could not be read.
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
        self._offset, self._file, self._rest, self._last_at = 0, (0, 0), b"", 0.0
        self._live: tuple[int, int, int] | None = None
        self._status: Mapping[str, JSON] = {}
        self._groups: dict[str, bytes] = {}
        self._heads: list[dict[str, JSON]] = []

    def poll(self) -> bool:
        """Read what was written since; return whether anything was.

        Raises:
            RunDirectoryError: a file cannot be read.
        """
        try:
            if not self._config:
                self._config = read_settings(self.path)
            return self._read_monitor() | self._read_live()
        except OSError as error:
            raise RunDirectoryError(f"{error.filename or self.path} cannot be read: {error.strerror}") from error

    def _read_monitor(self) -> bool:
        path, is_new = self.path / MONITOR, False
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return False
        with file:
            state = os.fstat(file.fileno())
            if self._offset and ((state.st_dev, state.st_ino) != self._file or state.st_size < self._offset):
                self._begin()  # it was repaired, or is that of another run
            self._file = state.st_dev, state.st_ino
            file.seek(self._offset)
            while part := file.read(_PART):
                is_new = True
                self._offset += len(part)
                *lines, self._rest = (self._rest + part).split(b"\n")
                for line in lines:
                    self._add(line)
                if len(self._rest) > _LONGEST_LINE:
                    self._rest = b""
        return is_new

    def _add(self, data: bytes) -> None:
        line = line_of(data)
        if line is None:
            self.damaged += 1
            return
        judge = text_of(line.get("judge"))
        if judge not in self.histories and len(self.histories) >= MOST_JUDGES:
            return
        self.histories.setdefault(judge, MonitorHistory()).add(line)
        self._is_ended = "end" in line
        if alarm := mapping_of(line.get("alarm")):
            self.alarm_count += 1
            self.alarms = [{"judge": judge, "at": line.get("at"), **alarm}, *self.alarms[: MOST_ALARMS - 1]]
        if "pause" in line:
            self._pause = mapping_of(line["pause"])
        at = line.get("at")
        self._last_at = float(at) if isinstance(at, int | float) else self._last_at

    def _read_live(self) -> bool:
        path = self.path / LIVE
        try:
            state = path.stat()
            found = state.st_ino, state.st_size, state.st_mtime_ns
            if found == self._live:
                return False
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return False
        self._live, self._groups, self._heads = found, {}, []
        for data in lines:
            line = line_of(data)
            if line is None:
                self.damaged += 1
            elif "status" in line:
                self._status = mapping_of(line["status"])
            elif (group := mapping_of(line.get("group"))) and isinstance(number := group.get("number"), int):
                judge = text_of(group.get("judge"))
                group_id = f"{crc32(judge.encode('utf-8', 'replace')):x}-{number}"
                self._groups[group_id] = data
                start = wire.shorten(text_of(group.get("question")), _START)
                head = {name: group.get(name) for name in _HEAD}
                self._heads.append({"id": group_id, "judge": judge, **head, "start": start})
        return True

    @property
    def group_ids(self) -> list[str]:
        """Return the ids of the groups that are kept: a digest of the judge's name, and the group's number."""
        return list(self._groups)

    def group(self, group_id: str) -> Mapping[str, JSON] | None:
        """Return a kept group with its texts; `None` if it is not kept."""
        data = self._groups.get(group_id)
        line = None if data is None else line_of(data)
        return None if line is None else mapping_of(line.get("group"))

    def state(self) -> dict[str, Any]:
        """Return what the page shows; its size is bounded."""
        names = sorted(self.histories)
        return {
            "title": self.path.resolve().name,
            "standing": self._standing(),
            "at": max(self._last_at, _at(self._status)) or None,
            "facts": self._facts(),
            "alarms": self.alarms,
            "alarm_count": self.alarm_count,
            "judges": [
                {
                    "name": name,
                    "charts": self.histories[name].charts(
                        sum(bool(each.gold_judge) for each in self.histories.values())
                    ),
                    "left_out": self.histories[name].left_out(),
                    "criteria": self.histories[name].criteria,
                }
                for name in names
            ],
            "failures": list(mapping_of(self._status.get("failures")).items())[:60],
            "reasons": mapping_of(self._status.get("reasons")),
            "dropped": list(mapping_of(self._status.get("dropped")).items())[:60],
            "groups": self._heads,
            "damaged": self.damaged,
        }

    def _standing(self) -> str:
        """Say whether the run goes on; what a killed process has left behind looks silent."""
        if self._is_ended or self._status.get("is_over") is True:
            return "ended"
        if self._pause.get("state") == "paused":
            return "paused"
        last = max(self._last_at, _at(self._status))
        if not last or time.time() - last <= _SILENT_S:  # a run that is alive writes every few seconds
            return "training"
        return "silent" if (self.path / LOCK).exists() else "stopped"

    def _facts(self) -> list[tuple[str, str]]:
        status, histories = self._status, self.histories.values()
        said = {name: status.get(name) for name in ("step", "total_steps", "sent", "in_progress", "unsent")}
        whole = {name: int(value) for name, value in said.items() if isinstance(value, int | float) and value >= 0}
        of = f" of {whole['total_steps']:,}" if whole.get("total_steps") else ""
        step = whole.get("step", max((int(each.step) for each in histories), default=0))
        groups = max(_whole(status.get("groups")), sum(each.groups for each in histories))
        rollouts = max(_whole(status.get("rollouts")), sum(each.rollouts for each in histories))
        costs: dict[str, float | None] = {}
        for each in histories:
            for role, cost in each.costs.items():
                before = costs.get(role, 0.0)
                costs[role] = None if before is None or cost is None else before + cost
        gold = [f"{count:,} {name.replace('_', ' ')}" for each in histories for name, count in _counts(each.gold)]
        spent = ", ".join(f"{role} {'not known' if cost is None else f'${cost:,.2f}'}" for role, cost in costs.items())
        found = [
            ("step", f"{step:,}{of}"),
            ("groups", f"{groups:,} judged" + (f", {whole['sent']:,} sent" if "sent" in whole else "")),
            ("rollouts", f"{rollouts:,}"),
            ("in progress", f"{whole['in_progress']:,} groups" if "in_progress" in whole else ""),
            ("queue", f"{whole['unsent']:,} groups wait to be sent" if "unsent" in whole else ""),
            ("gold scores", ", ".join(gold)),
            ("cost", spent),
            ("waits for", text_of(status.get("waits_for"))),
            ("policy", text_of(wire.lookup(self._config, "openai.model_name"))),
            *(fact for name, each in self.histories.items() for fact in _judges(name, each)),
        ]
        return [(name, value) for name, value in found if value]


def _at(status: Mapping[str, JSON]) -> float:
    at = status.get("at")
    return float(at) if isinstance(at, int | float) else 0.0


def _whole(value: JSON) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _judges(name: str, history: MonitorHistory) -> list[tuple[str, str]]:
    at = f" at {name}" if name else ""
    return [(f"training judge{at}", history.judge), (f"gold judge{at}", history.gold_judge)]


def _counts(counts: Mapping[str, JSON]) -> list[tuple[str, int]]:
    return [(name, int(count)) for name, count in counts.items() if isinstance(count, int | float)]
