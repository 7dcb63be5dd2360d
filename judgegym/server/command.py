"""`judgegym judge-server`, also `python -m judgegym.server`: serve judges over HTTP until a signal.

It loads the settings, starts the stand-in (`--offline`), serves, and stops on a signal.

SIGHUP: read the settings again, and serve their tokens and judges without dropping a request; where
the server had a
terminal that is gone, it stops it. Guarantees: settings that are wrong change nothing, and the log
has one line that says why; a request in flight is answered by the judges, and for the token, that
it came with; what only a restart can change keeps its value and is named in the log.

Exit codes: 0 after SIGTERM or Ctrl-C, when the requests in flight are answered; 2 for an error in
    the settings.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from judgegym.judges.config import presets
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.exit_code import BAD_INPUT, quiet_at_broken_pipe
from judgegym.judges.config.reading.help import flags_parser, help_page, help_requested
from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.judges.config.tracing import traced
from judgegym.judges.core import event_loop
from judgegym.judges.scorers.own_kinds import changed_files, no_new_files
from judgegym.llm.at_once import Tasks
from judgegym.llm.errors import SettingsError, UserError
from judgegym.server import workers
from judgegym.server.http import listening
from judgegym.server.operation import log_to_stderr
from judgegym.server.service import Service, opened
from judgegym.server.settings import (
    JudgeMount,
    RewardServerSettings,
    add_preset,
    bracketed,
    gathering,
)

logger = logging.getLogger(__name__)

_GROUPS = {
    "judge": "judge",
    "server": "server",
    "monitor": "monitors of what trainers ask",
    "run": "endpoints and random choices",
}


def main(argv: Sequence[str] | None = None, *, prog: str = "python -m judgegym.server") -> int:
    """Serve until stopped.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name, for messages.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return quiet_at_broken_pipe(lambda: _run(arguments, prog))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except OSError as error:
        sys.stderr.write(f"--host, --port: {error.strerror or error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:  # before the event loop handles the signal
        return 0


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Its flags, for completion."""
    return flags_parser(RewardServerSettings)


def _run(arguments: list[str], prog: str) -> int:
    detail = help_requested(arguments)
    if detail is not None:
        about = "Serve judges over HTTP to trainers."
        sys.stdout.write(
            help_page(
                RewardServerSettings,
                usage=prog,
                about=about,
                groups=_GROUPS,
                detail=detail,
                words=arguments,
            )
        )
        return 0
    read = partial(load, RewardServerSettings, arguments, prog=prog, reshape=add_preset)
    loaded = read()
    settings = loaded.settings
    if settings.show_config is not None:
        settings.mounted_judges()  # a member with a secret is refused, not shown
        for line in loaded.lines(show=settings.show_config):
            sys.stdout.write(f"{line.name:<28} {line.value}  [{line.source}]\n")
        return 0
    _checked(loaded)  # errors are reported once, not by each worker
    if settings.workers > 1 and workers.worker_place() is None:
        presets.check(settings.profile)
        return workers.supervise(settings, arguments, check=lambda: _check_reload(settings, read))
    log_to_stderr()
    event_loop.allow_many_connections()
    with presets.profiled(workers.own_file(settings.profile)), traced(settings.trace):
        event_loop.run(_serve(loaded, lambda: _checked(read())))
    return 0


def _check_reload(settings: RewardServerSettings, read: Load) -> None:
    """Check in the supervisor that its workers can reload."""
    with no_new_files():
        reloaded(settings, _checked(read()).settings)


def _checked(loaded: LoadedSettings[RewardServerSettings]) -> LoadedSettings[RewardServerSettings]:
    """The settings, after a check of what can be checked before anything is opened.

    Raises:
        SettingsError: settings do not fit each other.
    """
    settings = loaded.settings
    settings.check_access()
    settings.mounted_judges()
    settings.check_processes(settings.workers)
    settings.budgets()
    return loaded


async def _serve(loaded: LoadedSettings[RewardServerSettings], read: Load) -> None:
    """Listen until a signal comes; then refuse new requests and answer those in flight."""
    place, loop, stopped = workers.worker_place(), asyncio.get_running_loop(), asyncio.Event()
    async with opened(loaded) as service:
        received: list[int] = []

        def stop(number: int) -> None:
            received.append(number)
            stopped.set()

        reloader, has_hung_up = Reloader(service, read), workers.terminal_watch()

        def hang_up() -> None:
            if has_hung_up():
                stop(signal.SIGHUP)
            else:
                reloader.start()

        for number in workers.STOP_SIGNALS:
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGHUP, hang_up)
        if place is not None:
            loop.add_reader(place.supervisor, stopped.set)
        async with listening(service, reuse_port=place is not None) as (host, port):
            event_loop.spare_the_collector()
            if place is not None:
                place.started.touch()
            sys.stdout.write(f"judgegym.server listens at http://{bracketed(host)}:{port}\n")
            sys.stdout.flush()
            await stopped.wait()
            if place is not None:
                loop.remove_reader(place.supervisor)
            service.drain()
            by = {"signal": signal.Signals(received[0]).name} if received else {}
            logger.info("stopping", extra={"fields": {"pending": service.core.pending, **by}})


Load = Callable[[], LoadedSettings[RewardServerSettings]]
_IGNORED = frozenset({"config", "show_config"})
"""The names of files and what is only printed do not matter to a reload."""


def reloaded(
    old: RewardServerSettings, new: RewardServerSettings
) -> tuple[RewardServerSettings, list[str]]:
    """The settings after a reload, and the names of those that would need a restart to change.

    Raises:
        SettingsError: judges differ that gather single responses or are watched, which keep what
            they know of groups; or the server would be open without tokens.
    """
    of_judges = expand_choices(
        JudgeMount
    ).model_fields  # those of kinds that were loaded meanwhile, too
    beside_judges = (
        type(new).model_fields.keys() - of_judges.keys() - {"tokens", "mounts"} - _IGNORED
    )
    kept = [
        name
        for name in type(new).model_fields
        if name in beside_judges and getattr(old, name) != getattr(new, name)
    ]
    found = new.model_copy(update={name: getattr(old, name) for name in kept})
    found.check_access()
    before, after = old.mounted_judges(), found.mounted_judges()
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    gathers = [name for name in changed if name in (*gathering(before), *gathering(after))]
    if gathers or (changed and old.is_watched):
        why = (
            "it gathers groups (--group_size)"
            if gathers
            else "judges are watched (--run_dir, --gold_judge)"
        )
        raise SettingsError(
            f"the judge {(gathers or changed)[0]!r} can be changed by a restart only: {why}"
        )
    return found, kept


class Reloader:
    """Reloads a service, one time after the other."""

    def __init__(self, service: Service, load: Load) -> None:
        """Reload this service; `load` reads and checks the settings."""
        self._service, self._load = service, load
        self._lock = asyncio.Lock()
        self._tasks = Tasks()

    def start(self) -> None:
        """Begin a reload, after those that are under way."""
        self._tasks.begin(self.reload())

    async def reload(self) -> None:
        """Reload; whatever happens is told in the log."""
        async with self._lock:
            try:
                with no_new_files():
                    settings, kept = reloaded(self._service.settings, self._load().settings)
                    await self._service.remount(settings)
            except (UserError, OSError) as error:
                logger.error(refusal(error))
                return
            names = [name or settings.judge for name in self._service.core.judges.table.judges]
            logger.warning(
                "reloaded", extra={"fields": {"judges": names, "tokens": [*settings.tokens]}}
            )
            if kept:
                flags = ", ".join(f"--{name}" for name in kept)
                logger.warning("the new values of %s need a restart: the old ones stay", flags)
            for file in changed_files():
                logger.warning("the new code of %s needs a restart: the old one stays", file)


def refusal(error: Exception) -> str:
    """The line of the log for settings that are wrong."""
    return "the new settings are refused, and the old ones stay: " + "; ".join(
        str(error).splitlines()
    )
