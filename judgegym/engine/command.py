"""How a command that judges rows runs: signals, `run.log`, the exit code, and the command that resumes it.

SIGINT and SIGTERM cancel it, with the exit code that a shell expects. `run.log` begins with the
version, the command, and the settings that differ from their defaults. Where it ends early, it says
what is kept and how to go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from judgegym.engine import terminal
from judgegym.engine.loop import NothingSucceeds
from judgegym.engine.runs.disk import DiskFull
from judgegym.engine.runs.log import begin_logs
from judgegym.engine.terminal.output import format_dollars
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import package_version, require
from judgegym.judges.config.presets import write_profile
from judgegym.judges.config.reading.help import parse_help_detail
from judgegym.judges.config.sources import ConfigLine, LoadedSettings
from judgegym.judges.config.tracing import trace_process
from judgegym.judges.core import event_loop
from judgegym.llm.cost.budget import Budget, Expense, format_calls
from judgegym.llm.errors import BudgetError, EndpointOutage
from judgegym.monitoring.alarms import AlarmStop

FAILED = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LONGEST_VALUE = 300
LoadedT = TypeVar("LoadedT", bound=LoadedSettings[Any])


class StopSignal(BaseException):
    """A signal stopped the command; no handler of errors on its way takes it for one."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


async def run_until_stopped(command: Coroutine[Any, Any, int]) -> int:
    """Run a command; SIGINT and SIGTERM cancel it at once.

    Raises:
        StopSignal: a signal cancelled the command.
    """
    task = asyncio.ensure_future(command)
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if signals:
            raise StopSignal(signals[0]) from None
        raise


@contextmanager
def interruptible(*, is_profiled: bool) -> Iterator[None]:
    """Let a signal end the process at once, because the event loop handles none while datasets are loaded.

    A process that is profiled ends with `StopSignal`, so that its profile is written: as soon as C
    code returns. The collector is spared what is loaded then.
    """

    def stop(number: int, _: object) -> None:
        raise StopSignal(number)

    handlers = {
        number: signal.signal(number, stop if is_profiled else signal.SIG_DFL)
        for number in _SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    event_loop.reduce_garbage_collection()


def run_to_exit_code(name: str, command: Callable[[], int]) -> int:
    """The exit code of a command: as `exit_code` says, 1 if nothing succeeded, 130 or 143 if a signal stopped it."""
    try:
        return exit_code(command)
    except NothingSucceeds as error:
        terminal.warn(f"nothing succeeded, so {name} was stopped: {error}")
        return FAILED
    except StopSignal as stopped:
        return 128 + stopped.number


def settings_to_run(
    words: Sequence[str], page: Callable[..., str], read: Callable[[], LoadedT]
) -> LoadedT | None:
    """The settings of a command; `None` if its words asked for help or for the settings, which are shown instead.

    Args:
        words: of the command.
        page: its help: `render_help` but for `detail`.
        read: reads the settings.
    """
    detail = parse_help_detail(words)
    if detail is not None:
        terminal.say(page(detail=detail).rstrip("\n"))
        return None
    loaded = read()
    if loaded.settings.show_config is not None:
        terminal.show_config(loaded.lines(show=loaded.settings.show_config))
        return None
    return loaded


def run_command(
    title: str,
    loaded: LoadedSettings[Any],
    start: Callable[[], Coroutine[Any, Any, int]],
    *,
    debug: bool = False,
) -> int:
    """Run a command with its logs and its profile; returns the exit code.

    Args:
        title: what is run, for the log.
        loaded: the settings.
        start: begins it.
        debug: log what is said to models.

    Raises:
        StopSignal: a signal stopped it.
    """
    require("environments")
    event_loop.raise_open_file_limit()
    with write_profile(loaded.settings.profile), trace_process(loaded.settings.trace):
        terminal.log_to_terminal(debug=debug)
        begin_logs(_heading(title, loaded.lines(show="changed"), is_resumed=loaded.settings.resume))
        logging.captureWarnings(True)
        try:
            return event_loop.run(run_until_stopped(start()))
        finally:
            logging.captureWarnings(False)


@contextmanager
def resumable(
    resume_command: Callable[[Expense | None], str],
    describe_kept: Callable[[], str],
    verb: str = "resume",
    budget: Budget | None = None,
) -> Iterator[None]:
    """Say how to resume, where a signal, a full disk, an endpoint's outage, an alarm or a spent budget ends the run.

    Args:
        resume_command: the command that resumes the run; given what is spent, with a larger budget.
        describe_kept: what is kept, in words.
        verb: the verb for it.
        budget: of the run.
    """
    try:
        yield
    except asyncio.CancelledError:
        terminal.warn(f"stopped: {describe_kept()}. To {verb}:\n  {resume_command(None)}")
        raise
    except DiskFull as error:
        raise DiskFull(
            f"{error}\nMake room on the disk, and {verb}:\n  {resume_command(None)}"
        ) from error
    except EndpointOutage as error:
        message = (
            f"{error}\nThe run was stopped: {describe_kept()}. To {verb}:\n  {resume_command(None)}"
        )
        raise EndpointOutage(message, error.exit_code) from error
    except BudgetError as error:
        assert budget is not None  # nothing else is ever spent
        spent = budget.spent
        cost = "" if spent.usd is None else f" and {format_dollars(spent.usd)}"
        sent = f"{format_calls(spent.calls)}{cost} in all"
        kept_now = f"{describe_kept()}. Nothing that was paid for is lost"
        raise BudgetError(
            f"{error} ({sent}); {kept_now}. To {verb}:\n  {resume_command(spent)}"
        ) from error
    except AlarmStop as error:
        raise AlarmStop(
            f"{error}\nThe run was stopped: {describe_kept()}. To {verb}:\n  {resume_command(None)}"
        ) from error


def _heading(command: str, settings: Iterable[ConfigLine], *, is_resumed: bool) -> list[str]:
    """Return the lines; keys are masked in the settings, as in `--show_config`.

    Args:
        command: what is run.
        settings: those that differ from their defaults.
        is_resumed: an earlier run goes on.
    """
    how = "resumed" if is_resumed else "begun"
    python = f"Python {platform.python_version()}, process {os.getpid()}"
    first = (
        f"{how}: {command}, judgegym {package_version()}, {python}; settings that are not defaults:"
    )
    return [first, *(f"{line.name}: {_shorten(line.value)}  [{line.source}]" for line in settings)]


def _shorten(value: str) -> str:
    """Return a value in one line."""
    value = " ".join(value.split())
    return (
        value
        if len(value) <= _LONGEST_VALUE
        else f"{value[:_LONGEST_VALUE]} … ({len(value)} characters)"
    )
