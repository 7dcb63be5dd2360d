"""SIGHUP: read the settings again, and serve their tokens and judges without dropping a request.

Guarantees: settings that are wrong change nothing, and the log has one line that says why; a request in flight is
answered by the judges, and for the token, that it came with; what only a restart can change keeps its value and is
named in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from judgegym.judges.config.sources import LoadedSettings
from judgegym.llm.errors import SettingsError, UserError
from judgegym.server.service import Service
from judgegym.server.settings import JudgeMount, RewardServerSettings

logger = logging.getLogger(__name__)

Load = Callable[[], LoadedSettings[RewardServerSettings]]
_RELOADED = frozenset({"tokens", "mounts", *JudgeMount.model_fields})
"""The settings that a reload changes; the names of files and what is only printed do not matter to it."""
_IGNORED = frozenset({"config", "show_config"})


def reloaded(old: RewardServerSettings, new: RewardServerSettings) -> tuple[RewardServerSettings, list[str]]:
    """The settings after a reload, and the names of those that would need a restart to change.

    Raises:
        SettingsError: judges differ that gather single responses or are watched, which keep what they know of groups;
            or the server would be open without tokens.
    """
    differ = [name for name in type(old).model_fields if getattr(old, name) != getattr(new, name)]
    kept = [name for name in differ if name not in _RELOADED | _IGNORED]
    found = new.model_copy(update={name: getattr(old, name) for name in kept})
    found.check_access()
    before, after = old.mounted_judges(), found.mounted_judges()
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    gathers = [name for name in changed if any(name in each and each[name].gathers for each in (before, after))]
    if gathers or (changed and old.is_watched):
        why = "it gathers groups (--group_size)" if gathers else "judges are watched (--run_dir, --gold_judge)"
        raise SettingsError(f"the judge {(gathers or changed)[0]!r} can be changed by a restart only: {why}")
    return found, kept


class Reloader:
    """Reloads a service, one time after the other."""

    def __init__(self, service: Service, load: Load) -> None:
        """Reload this service; `load` reads and checks the settings."""
        self._service, self._load = service, load
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin a reload, after those that are under way."""
        task = asyncio.create_task(self.reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def reload(self) -> None:
        """Reload; whatever happens is told in the log."""
        async with self._lock:
            try:
                settings, kept = reloaded(self._service.settings, self._load().settings)
                await self._service.remount(settings)
            except (UserError, OSError) as error:
                logger.error(refusal(error))
                return
            names = [name or settings.judge for name in self._service.core.table.judges]
            logger.warning("reloaded", extra={"fields": {"judges": names, "tokens": [*settings.tokens]}})
            if kept:
                flags = ", ".join(f"--{name}" for name in kept)
                logger.warning("the new values of %s need a restart: the old ones stay", flags)


def refusal(error: Exception) -> str:
    """The line of the log for settings that are wrong."""
    return "the new settings are refused, and the old ones stay: " + "; ".join(str(error).splitlines())
