"""`judgegym judge-server`, also `python -m judgegym.server`: serve judges over HTTP until a signal.

The command loads the settings, starts the stand-in (`--offline`), serves, and stops on a signal.

SIGHUP reloads the settings, and serves their tokens and judges without dropping a request; if the
server's terminal is gone, SIGHUP stops it. Guarantees: wrong settings change nothing, and the log
has one line with the reason; requests in flight keep the judges and the token that they came with;
settings that need a restart keep their values and are named in the log.

Exit codes: 0 after SIGTERM or Ctrl-C, once the requests in flight have their responses; 2 for an
error in the settings.
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
from judgegym.judges.config.exit_code import BAD_INPUT, run_and_flush
from judgegym.judges.config.reading.help import make_flags_parser, parse_help_detail, render_help
from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.judges.config.tracing import trace_process
from judgegym.judges.core import event_loop
from judgegym.judges.scorers.own_kinds import find_changed_files, refuse_new_files
from judgegym.llm.at_once import Tasks
from judgegym.llm.errors import SettingsError, UserError
from judgegym.server import workers
from judgegym.server.http import listening
from judgegym.server.operation import log_to_stderr
from judgegym.server.service import Service, open_service
from judgegym.server.settings import (
    JudgeMount,
    RewardServerSettings,
    add_preset,
    bracket_host,
    list_gathering,
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
        argv: the command line without the program's name; by default the process's.
        prog: the program's name, for messages.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run_and_flush(lambda: _run(arguments, prog))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except OSError as error:
        sys.stderr.write(f"--host, --port: {error.strerror or error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:  # before the event loop handles the signal
        return 0


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's flags, for shell completion."""
    return make_flags_parser(RewardServerSettings)


def _run(arguments: list[str], prog: str) -> int:
    detail = parse_help_detail(arguments)
    if detail is not None:
        description = "Serve judges over HTTP to trainers."
        sys.stdout.write(
            render_help(
                RewardServerSettings,
                usage=prog,
                about=description,
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
    _check_settings(loaded)  # errors are reported once, not by each worker
    if settings.workers > 1 and workers.find_worker() is None:
        presets.check_profile(settings.profile)
        return workers.supervise(settings, arguments, check=lambda: _check_reload(settings, read))
    log_to_stderr()
    event_loop.raise_open_file_limit()
    with (
        presets.write_profile(workers.worker_file(settings.profile)),
        trace_process(settings.trace),
    ):
        event_loop.run(_serve(loaded, lambda: _check_settings(read())))
    return 0


def _check_reload(settings: RewardServerSettings, read: LoadSettings) -> None:
    """Check in the supervisor that its workers can reload."""
    with refuse_new_files():
        merge_reload(settings, _check_settings(read()).settings)


def _check_settings(
    loaded: LoadedSettings[RewardServerSettings],
) -> LoadedSettings[RewardServerSettings]:
    """Return the settings after all checks that need nothing to be open.

    Raises:
        SettingsError: settings contradict each other.
    """
    settings = loaded.settings
    settings.check_access()
    settings.mounted_judges()
    settings.check_processes(settings.workers)
    settings.budgets()
    return loaded


async def _serve(loaded: LoadedSettings[RewardServerSettings], read: LoadSettings) -> None:
    """Serve until a signal comes; then refuse new requests and drain those in flight."""
    worker = workers.find_worker()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    async with open_service(loaded) as service:
        signals: list[int] = []

        def stop(number: int) -> None:
            signals.append(number)
            stopped.set()

        reloader = Reloader(service, read)
        has_hung_up = workers.terminal_watch()

        def hang_up() -> None:
            if has_hung_up():
                stop(signal.SIGHUP)
            else:
                reloader.start()

        for number in workers.STOP_SIGNALS:
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGHUP, hang_up)
        if worker is not None:
            loop.add_reader(worker.supervisor, stopped.set)
        async with listening(service, reuse_port=worker is not None) as (host, port):
            event_loop.reduce_garbage_collection()
            if worker is not None:
                worker.started.touch()
            url_host = bracket_host(host)
            sys.stdout.write(f"judgegym.server listens at http://{url_host}:{port}\n")
            sys.stdout.flush()
            await stopped.wait()
            if worker is not None:
                loop.remove_reader(worker.supervisor)
            service.drain()
            by = {"signal": signal.Signals(signals[0]).name} if signals else {}
            logger.info("stopping", extra={"fields": {"pending": service.core.pending, **by}})


LoadSettings = Callable[[], LoadedSettings[RewardServerSettings]]
_IGNORED = frozenset({"config", "show_config"})
"""Settings that a reload ignores: the name of a file, and what is only printed."""


def merge_reload(
    old: RewardServerSettings, new: RewardServerSettings
) -> tuple[RewardServerSettings, list[str]]:
    """Return the settings after a reload, and the names of changed settings that need a restart.

    Raises:
        SettingsError: a judge changed that gathers single responses or is watched, and therefore
            holds groups; or the server would be open without tokens.
    """
    # Also those of kinds that were loaded meanwhile.
    judge_fields = expand_choices(JudgeMount).model_fields
    server_fields = (
        type(new).model_fields.keys() - judge_fields.keys() - {"tokens", "mounts"} - _IGNORED
    )
    candidates = [name for name in type(new).model_fields if name in server_fields]
    restart_only = [name for name in candidates if getattr(old, name) != getattr(new, name)]
    merged = new.model_copy(update={name: getattr(old, name) for name in restart_only})
    merged.check_access()
    before = old.mounted_judges()
    after = merged.mounted_judges()
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    gathering = {*list_gathering(before), *list_gathering(after)}
    gathers = [name for name in changed if name in gathering]
    if gathers or (changed and old.is_watched):
        reason = "judges are watched (--run_dir, --gold_judge)"
        if gathers:
            reason = "it gathers groups (--group_size)"
        raise SettingsError(
            f"the judge {(gathers or changed)[0]!r} can be changed by a restart only: {reason}"
        )
    return merged, restart_only


class Reloader:
    """Reloads a service, one reload at a time."""

    def __init__(self, service: Service, load: LoadSettings) -> None:
        """Reload this service; `load` reads and checks the settings."""
        self._service = service
        self._load = load
        self._lock = asyncio.Lock()
        self._tasks = Tasks()

    def start(self) -> None:
        """Start a reload after those in progress."""
        self._tasks.begin(self.reload())

    async def reload(self) -> None:
        """Reload; the outcome is logged."""
        async with self._lock:
            try:
                with refuse_new_files():
                    settings, restart_only = merge_reload(
                        self._service.settings, self._load().settings
                    )
                    await self._service.remount(settings)
            except (UserError, OSError) as error:
                logger.error(format_refusal(error))
                return
            judges = self._service.core.judges.table.judges
            names = [name or settings.judge for name in judges]
            logger.warning(
                "reloaded", extra={"fields": {"judges": names, "tokens": [*settings.tokens]}}
            )
            if restart_only:
                flags = ", ".join(f"--{name}" for name in restart_only)
                logger.warning("the new values of %s need a restart: the old ones stay", flags)
            for file in find_changed_files():
                logger.warning("the new code of %s needs a restart: the old one stays", file)


def format_refusal(error: Exception) -> str:
    """Return the log line for wrong settings."""
    return "the new settings are refused, and the old ones stay: " + "; ".join(
        str(error).splitlines()
    )
