"""Monitors of a reward server's or a plugin's judges, each with a gold judge, for every trainer.

A group is the responses to one prompt: those of one request, or single responses that arrive one
after the other. Guarantees: no response waits for a monitor, and no monitor error reaches a client;
memory is bounded, whatever the number of prompts. A response is watched after it has been sent, so
that a repeated request counts once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import aiohttp

from judgegym.engine.runs.directory import DirectoryLock
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.lines import LineWriter
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.llm.at_once import cancel_all
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON
from judgegym.monitoring.group import MonitorGroup, MonitorRollout, select_verdicts
from judgegym.monitoring.live_file import LIVE, MONITOR, LiveFile
from judgegym.monitoring.monitor import MonitorTarget, TrainingMonitor
from judgegym.monitoring.opening import MonitorContext, open_monitor
from judgegym.server.operation import Telemetry
from judgegym.server.settings import JudgeMount, WatchSettings

logger = logging.getLogger(__name__)

_POLL_S = 1.0
_QUIET_S = 20.0
"""A group of unknown size is complete when no response has come for this long."""
_MOST_OPEN = 4_096
_MOST_WAITING = 1_000
_MOST_MEMBERS = 256
_GOODBYE_S = 5.0


@dataclass(slots=True)
class _OpenGroup:
    """The responses to one prompt that have arrived so far."""

    uid: str
    task: JudgeTask
    members: list[tuple[str, ResponseJudgment]] = field(default_factory=list)
    latest: float = 0.0


class ServerMonitors:
    """Watches the judges of a process; its core opens and closes it."""

    def __init__(
        self, settings: WatchSettings, mounts: Mapping[str, JudgeMount], telemetry: Telemetry
    ) -> None:
        """Prepare.

        Args:
            settings: how the judges are watched, and where the files go; without a folder only log
                and metrics are written.
            mounts: the judges by name; the empty name is one of them.
            telemetry: receives the latest numbers.
        """
        self._settings = settings
        self._mounts = mounts
        self._telemetry = telemetry
        self._monitors: dict[str, TrainingMonitor] = {}
        self._open: OrderedDict[tuple[str, str | None, str], _OpenGroup] = OrderedDict()
        self._file: LineWriter | None = None
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, session: aiohttp.ClientSession, identity: str) -> None:
        """Open the files and the gold judges' clients.

        Args:
            session: sends all requests.
            identity: the stand-in's identity, if it replaces all endpoints.

        Raises:
            SettingsError: the gold judge's API key is missing.
            RunDirectoryError: another process uses the directory, or it cannot be written to.
        """
        settings = self._settings
        first = self._mounts[""]
        folder = self._settings.run_dir
        if folder is not None:
            self._stack.callback(DirectoryLock(folder).release)
            self._file = LineWriter(
                folder / MONITOR, self._warn_unwritable, most_waiting=_MOST_WAITING
            )
            self._stack.callback(self._file.close)
        place = MonitorContext(
            session=session,
            budget=settings.gold_budget(),
            folder=folder,
            stand_in=first if identity == STAND_IN_IDENTITY else None,
        )
        for name, mount in self._mounts.items():
            cascade = mount.match_settings(CascadeSettings)
            judges = len(self._mounts)
            target = MonitorTarget(
                first.seed, mount.judge_name(), settings.monitor_every, name, judges, cascade
            )
            self._monitors[name] = open_monitor(
                settings,
                target,
                place,
                write=self._write,
                on_alarm=partial(self._telemetry.count_alarm, name),
            )
        if folder is not None:
            kept_values = {name: monitor.page_groups for name, monitor in self._monitors.items()}
            live = LiveFile(folder / LIVE, kept_values, self._status, write_atomic)
            self._stack.push_async_callback(live.write, is_over=True)
            self._tasks.append(asyncio.create_task(live.run()))
        self._tasks.append(asyncio.create_task(self._close_quiet()))

    def watch_task(self, mount: str, task: JudgeTask, results: Sequence[ResponseJudgment]) -> None:
        """Watch the results of a task whose response was sent."""
        try:
            self._watch_task(mount, task, results)
        except (
            Exception
        ):  # boundary of the monitors: a caller has its answer, whatever happens here
            logger.exception("the monitors leave out a response")

    def _watch_task(self, mount: str, task: JudgeTask, results: Sequence[ResponseJudgment]) -> None:
        bare = replace(task.replace_responses(()), fault=None)
        members = [*zip(task.responses, results, strict=True)]
        name = task.group or "prompt-" + bare.key(mount)[:16]
        if len(members) != 1:
            self._add(mount, _OpenGroup(name, bare, members))
            return
        key = mount, task.client, name
        group = self._open.get(key)
        if group is None:
            group = self._open[key] = _OpenGroup(name, bare)
        group.members += members
        group.latest = time.monotonic()
        self._open.move_to_end(key)
        if len(group.members) >= (self._mounts[mount].group_size or _MOST_MEMBERS):
            self._add(mount, self._open.pop(key))
        elif len(self._open) > _MOST_OPEN:
            self._close_oldest()

    async def aclose(self) -> None:
        """Watch the open groups, give the gold judges five seconds to finish, and close."""
        await cancel_all(self._tasks)
        while self._open:
            self._close_oldest()
        monitors = self._monitors.values()
        await asyncio.gather(*(monitor.close(_GOODBYE_S) for monitor in monitors))
        await self._stack.aclose()

    async def _close_quiet(self) -> None:
        """Close groups that have received no response for a while; never returns."""
        while True:
            await asyncio.sleep(_POLL_S)
            while (
                self._open and next(iter(self._open.values())).latest <= time.monotonic() - _QUIET_S
            ):
                self._close_oldest()

    def _close_oldest(self) -> None:
        (mount, _, _), group = self._open.popitem(last=False)
        self._add(mount, group)

    def _add(self, mount: str, group: _OpenGroup) -> None:
        monitor = self._monitors[mount]
        number = monitor.groups + 1
        rollouts = tuple(
            MonitorRollout(
                response,
                result.score,
                result.score,
                result.status,
                result.label,
                result.explanation,
                suspects=result.injection_suspects,
                criteria=select_verdicts(result.components),
            )
            for response, result in group.members
        )
        results = [result for _, result in group.members]
        monitor.add(
            MonitorGroup(
                number,
                number,
                group.uid,
                group.task,
                rollouts,
                sum(result.judge_calls for result in results),
                {"judge": sum((result.usage for result in results), Usage()).cost},
                knows_policy=False,
            )
        )
        counts = monitor.gold.counts if monitor.gold is not None else Counter[str]()
        self._telemetry.set_monitors(mount, monitor.values, counts)

    def _write(self, line: bytes) -> None:
        if self._file is not None:
            self._file.append(line)

    def _warn_unwritable(self, path: Path, error: OSError) -> None:
        assert self._file is not None  # it calls this
        if self._file.waiting == 1:  # warn once, until lines can be written again
            consequence = f"the latest {_MOST_WAITING} lines are kept in memory"
            logger.warning("%s cannot be written to: %s; %s", path, error.strerror, consequence)

    def _status(self) -> dict[str, JSON]:
        """Return the server's status for `live.jsonl`."""
        groups = sum(monitor.groups for monitor in self._monitors.values())
        return {"step": groups, "in_progress": len(self._open)}
