"""Commands that judge rows: signals, `run.log`, the exit code, and how to resume.

SIGINT and SIGTERM cancel a command, with the exit code that a shell expects. `run.log` begins with
the version, the command, and the settings that differ from their defaults. A command that ends
early says what is kept and how to continue.
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
    """A signal stopped the command; no error handler on the way catches it."""

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
    """Let a signal end the process at once while data sets are loaded without an event loop.

    A profiled process ends with `StopSignal` as soon as C code returns, so that its profile is
    written. The garbage collector skips the loaded data afterwards.
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
    """Run a command; return its exit code: 1 if nothing succeeded, 130 or 143 after a signal."""
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
    """Load a command's settings; `None` if its arguments ask for help or for the settings.

    Args:
        words: the command's arguments.
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
    """Run a command with its logs and its profile; return the exit code.

    Args:
        title: the command, for the log.
        loaded: the settings.
        start: starts the command.
        debug: whether to log prompts and responses.

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
    """Say how to resume when the block ends early.

    By a signal, a full disk, an endpoint's outage, an alarm or a spent budget.

    Args:
        resume_command: returns the command that resumes the run, with a larger budget if the
            expense is given.
        describe_kept: describes what is kept.
        verb: the verb for resuming.
        budget: the run's budget.
    """

    def explain_resuming(spent: Expense | None = None) -> str:
        kept_words, command = describe_kept(), resume_command(spent)
        return f"{kept_words}. To {verb}:\n  {command}"

    try:
        yield
    except asyncio.CancelledError:
        how_to_resume = explain_resuming()
        terminal.warn(f"stopped: {how_to_resume}")
        raise
    except DiskFull as error:
        command = resume_command(None)
        raise DiskFull(f"{error}\nMake room on the disk, and {verb}:\n  {command}") from error
    except EndpointOutage as error:
        how_to_resume = explain_resuming()
        message = f"{error}\nThe run was stopped: {how_to_resume}"
        raise EndpointOutage(message, error.exit_code) from error
    except BudgetError as error:
        assert budget is not None  # nothing else is ever spent
        spent = budget.spent
        sent = format_calls(spent.calls)
        if spent.usd is not None:
            sent += " and " + format_dollars(spent.usd)
        kept_words, command = describe_kept(), resume_command(spent)
        raise BudgetError(
            f"{error} ({sent} in all); {kept_words}. Nothing that was paid for is lost. "
            f"To {verb}:\n  {command}"
        ) from error
    except AlarmStop as error:
        how_to_resume = explain_resuming()
        raise AlarmStop(f"{error}\nThe run was stopped: {how_to_resume}") from error


def _heading(command: str, settings: Iterable[ConfigLine], *, is_resumed: bool) -> list[str]:
    """Return the first lines of the log; keys are masked in the settings, as in `--show_config`.

    Args:
        command: the command.
        settings: the settings that differ from their defaults.
        is_resumed: whether an earlier run is continued.
    """
    how = "begun"
    if is_resumed:
        how = "resumed"
    version, python, process = package_version(), platform.python_version(), os.getpid()
    lines = [
        f"{how}: {command}, judgegym {version}, Python {python}, process {process}; settings that "
        "are not defaults:"
    ]
    for line in settings:
        value = _shorten(line.value)
        lines.append(f"{line.name}: {value}  [{line.source}]")
    return lines


def _shorten(value: str) -> str:
    """Return a value in one line."""
    value = " ".join(value.split())
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"{value[:_LONGEST_VALUE]} … ({len(value)} characters)"
