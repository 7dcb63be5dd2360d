"""Scores of a judge in this process; importing this module needs all packages of the judges.

With `group_size`, single responses are gathered into cohorts of this process. That suits trainers
that send all samples of a prompt from one process; if several processes each send a part of a
group, a server must gather it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from pydantic import ValidationError

from judgegym.api.session import stand_in_settings
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.scorers.stand_in import list_references
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.answers import NotYetError, OverloadError
from judgegym.server.core import Core
from judgegym.server.monitoring import ServerMonitors
from judgegym.server.operation import Telemetry
from judgegym.server.protocols.native import ScoreBody
from judgegym.server.settings import JudgeMount, WatchSettings, shorten_deadline
from judgegym_trainers.scores.groups import find_distributed
from judgegym_trainers.scores.requests import CompletionRow, make_request_body
from judgegym_trainers.scores.results import CompletionReward, RefusedError, make_failures

_MAX_PENDING = 100_000


class InProcessSource:
    """A judge with its own core, which opens at the first request."""

    def __init__(self, judge: Mapping[str, JSON], *, deadline_s: float, offline: bool) -> None:
        """Score with `judge`, configured as in the server.

        Args:
            judge: the settings of the judge; `offline` is like the argument, and `monitor` has the
                server's settings of monitors, such as `run_dir` and `gold_judge`.
            deadline_s: seconds within which a score is returned.
            offline: call the stand-in instead of the judge's endpoint; its scores mean nothing.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        settings = dict(judge)
        is_stand_in = settings.pop("offline", False)
        monitor_settings = settings.pop("monitor", {})
        if not isinstance(is_stand_in, bool):
            raise SettingsError(f"judge.offline: expected true or false, found {is_stand_in!r}")
        if not isinstance(monitor_settings, Mapping):
            raise SettingsError(
                f"judge.monitor: expected a mapping of settings, found {monitor_settings!r}"
            )
        self._monitor_settings: WatchSettings | None = None
        if monitor_settings:
            self._monitor_settings = settings_from_keywords(
                WatchSettings, monitor_settings, prefix="judge.monitor."
            )
        self._judge = settings_from_keywords(
            JudgeMount, {**shorten_deadline(deadline_s), **settings}, prefix="judge."
        )
        self._offline = offline or is_stand_in
        self._stack = AsyncExitStack()
        self._deadline_s = deadline_s
        self._core: Core | None = None
        self._open_lock = asyncio.Lock()

    async def score(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        """See `Source`.

        Raises:
            SettingsError: the judge's settings are wrong, or its key is missing.
        """
        core = await self._open_core()
        request = make_request_body(group)
        try:
            tasks = ScoreBody.model_validate(request).tasks(request)
            (results,) = await core.score("", tasks, within_s=self._deadline_s, is_patient=True)
        except OverloadError:
            return make_failures(f"{_MAX_PENDING} judgments are under way", len(group))
        except NotYetError as error:  # the judge was unreachable for longer than the deadline
            return make_failures(error.message, len(group))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise RefusedError(f"{place}: {first['msg']}") from None
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return [
            CompletionReward(result.score, result.status, result.label, result.explanation)
            for result in results
        ]

    async def _open_core(self) -> Core:
        async with self._open_lock:
            if self._core is None:
                async with AsyncExitStack() as stack:
                    judge = await self._open_stand_in(stack) if self._offline else self._judge
                    identity = ""
                    if self._offline:
                        identity = STAND_IN_IDENTITY
                    core = Core(
                        {"": judge},
                        deadline_s=self._deadline_s,
                        max_pending=_MAX_PENDING,
                        judge_identity=identity,
                        monitors=self._monitors(judge),
                    )
                    self._core = await stack.enter_async_context(core)
                    self._stack = stack.pop_all()
            return self._core

    async def _open_stand_in(self, stack: AsyncExitStack) -> JudgeMount:
        """Return the judge's settings at a stand-in that also knows the gold judge's prompts."""
        prompts = [] if self._monitor_settings is None else list_references(self._monitor_settings)
        return await stand_in_settings(stack, self._judge, prompts)

    def _monitors(self, judge: JudgeMount) -> ServerMonitors | None:
        """Return the judge's monitors; each of a trainer's processes has a folder of its own."""
        monitor_settings = self._monitor_settings
        if monitor_settings is None:
            return None
        if monitor_settings.run_dir is not None and (processes := find_distributed()) is not None:
            rank = processes.get_rank()
            folder = monitor_settings.run_dir / f"process-{rank}"
            monitor_settings = monitor_settings.model_copy(update={"run_dir": folder})
        return ServerMonitors(monitor_settings, {"": judge}, Telemetry())

    async def close(self) -> None:
        """Close the core."""
        stack = self._stack
        self._stack = AsyncExitStack()
        self._core = None
        await stack.aclose()
