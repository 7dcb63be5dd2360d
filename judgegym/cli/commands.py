"""The commands of `judgegym`: what each does and which module runs it.

Each command is imported when it is called, so that help, errors and completion are fast. Printed
commands begin as the user called the program, so that they work in the same shell. `judgegym
--help` lists the commands, how to get their help, and the exit codes.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

from judgegym.cli import Command
from judgegym.cli.environments import ENVIRONMENT_FORMS, environment_names, load_environment
from judgegym.environments.command_line.program import VERBS, Program
from judgegym.judges.config import entry_points
from judgegym.judges.config.entry_points import (
    EntryPoint,
    explain_import_errors,
    index_by_name,
    read_entry_points,
)
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import install_command
from judgegym.judges.core.naming import suggest_similar
from judgegym.llm.errors import SettingsError, UserError

_ENVIRONMENTS = "environments"
_DATA = "data sets"
_RUNS = "finished runs"
_SERVERS = "servers"
_SHELL = "shell"
_HEADINGS = (_ENVIRONMENTS, _DATA, "judges on trial", _RUNS, _SERVERS, _SHELL)
"""The headings in the overview's order; other headings follow."""
_VERB = "judgegym.environments.command_line.main"

COMMANDS: Mapping[str, Command] = {
    "list": Command(
        "show environments, or models with --judges",
        "judgegym.cli.listing",
        "[ENV …]",
        _ENVIRONMENTS,
    ),
    "evaluate": Command(
        "score a policy and print benchmark numbers", _VERB, "ENV …", _ENVIRONMENTS
    ),
    "serve": Command("send judged rollouts to a trainer", _VERB, "ENV …", _ENVIRONMENTS),
    "process": Command("write judged rollouts to a file", _VERB, "ENV …", _ENVIRONMENTS),
    "score": Command(
        "judge the rows of a data set",
        "judgegym.datasets.score.command",
        "DATA --out FILE …",
        _DATA,
    ),
    "select": Command(
        "take the best rows, or pairs",
        "judgegym.datasets.select.command",
        "SCORED --out FILE",
        _DATA,
    ),
    "report": Command(
        "write the page of a run, report.html", "judgegym.reports.__main__", "RUN", _RUNS
    ),
    "compare": Command(
        "compare runs on the rows they share",
        "judgegym.reports.compare.__main__",
        "RUN RUN …",
        _RUNS,
    ),
    "view": Command(
        "show all runs of a folder in a browser", "judgegym.reports.view.__main__", "FOLDER", _RUNS
    ),
    "batch": Command("show and cancel the batches of a run", "judgegym.cli.batch", "RUN", _RUNS),
    "judge": Command(
        "show, check, export or import a judge's file",
        "judgegym.cli.judge_cards.command",
        "ACTION FILE",
        "judges on trial",
    ),
    "judge-server": Command(
        "serve judges to trainers over HTTP", "judgegym.server.command", "…", _SERVERS
    ),
    "offline-server": Command(
        "serve the stand-in for policy and judge", "judgegym.offline.command", "…", _SERVERS
    ),
    "completion": Command(
        "complete judgegym in bash, zsh or fish", "judgegym.cli.completion", "SHELL", _SHELL
    ),
}
"""The built-in commands. The verbs' module also takes an environment: see `_run_verb`."""

NAME = "judgegym"
HELP = ("--help", "-h", "--help_all", "--help-all")
_COLUMNS = 80
_WIDTH = 24
_EXIT_CODES = """\
Exit codes: 0 done; 1 too many failures, or nothing succeeded; 2 an error in
settings, data or run directory, explained in one message; 3 a budget is spent,
or an alarm ended serve; 4 a check of an audit fails, an attack succeeds, or a
cascade has no threshold; 130 Ctrl-C, 143 SIGTERM (finished rows are on disk);
141 the output pipe is closed."""


def find_program() -> Program:
    """Find how the user called this program, for printed commands.

    The result is `judgegym` if the shell finds this program under that name, else its path; or
    `python -m judgegym`.
    """
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return Program(("python", "-m", NAME), (sys.executable, "-m", NAME))
    installed_path = shutil.which(NAME)
    is_on_path = installed_path is not None and path.exists() and path.samefile(installed_path)
    word = NAME if is_on_path else str(path)
    return Program((word,), (word,))


def load_installed_commands() -> tuple[Mapping[str, Command], Mapping[str, str]]:
    """Load the commands of installed distributions, and the reasons of unusable ones."""
    commands: dict[str, Command] = {}
    reasons: dict[str, str] = {}
    points = read_entry_points(entry_points.COMMANDS, COMMANDS)
    for point in points:
        try:
            commands[point.name] = _load_command(point)
        except UserError as error:
            reasons[point.name] = str(error)
    if not any(point.is_of_core for point in points):
        install = install_command("environments")
        reasons[NAME] = (
            f"commands are missing: {NAME} is not installed, or in an older version: {install}"
        )
    return commands, reasons


def find_command(name: str) -> Command | None:
    """Find the command with this name, built-in or of an installed distribution.

    Raises:
        SettingsError: a distribution's command of this name cannot be used.
    """
    if name in COMMANDS:
        return COMMANDS[name]
    point = index_by_name(read_entry_points(entry_points.COMMANDS, COMMANDS)).get(name)
    if point is None:
        return None
    return _load_command(point)


def _load_command(point: EntryPoint) -> Command:
    """Import the object of an entry point.

    Raises:
        SettingsError: it cannot be imported, or is no command.
    """
    command = point.load()
    if not isinstance(command, Command):
        command_type = type(command).__name__
        message = f"{point.target} is of type {command_type}; expected judgegym.cli.Command"
        raise SettingsError(f"{point.name} of {point.distribution}: {message}")
    return command


def render_overview(program: Program) -> str:
    """Render the overview of all commands, at most 80 columns wide."""
    installed, reasons = load_installed_commands()
    groups: dict[str, list[str]] = {heading: [] for heading in _HEADINGS}
    for name, command in {**COMMANDS, **installed}.items():
        usage = f"  {name} {command.arguments}".rstrip()
        about = _shorten(command.about, _COLUMNS - _WIDTH - 4)
        one_line = [f"{usage:<{_WIDTH + 2}}  {about}"]
        two_lines = [_shorten(usage, _COLUMNS), f"{'':<{_WIDTH + 2}}  {about}"]
        groups.setdefault(command.group, []).extend(
            one_line if len(usage) <= _WIDTH + 2 else two_lines
        )
    if reasons:
        groups["cannot be used"] = [
            _shorten(f"  {reason}", _COLUMNS) for reason in reasons.values()
        ]
    sections = "\n".join(
        f"{group}:\n" + "\n".join(lines) for group, lines in groups.items() if lines
    )
    name = program.name
    return f"""\
usage: {name} COMMAND …

Train and evaluate language models where the reward is another model's judgment.

{sections}

ENV is a name that `{name} list` shows, or an environment of your own:
path/to/file.py, path/to/file.py:Class or package.module:Class.

{name} COMMAND --help          what a command takes
{name} evaluate ENV --help     the most used settings; --help_all: every one
{name} --version               the version

{_EXIT_CODES}"""


def _shorten(text: str, width: int) -> str:
    """Return the text in one line of at most `width` characters."""
    line = text.rstrip().replace("\n", " ")
    if len(line) <= width:
        return line
    return f"{line[: width - 1]}…"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the command line without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _run(find_program(), arguments))


def _run(program: Program, argv: Sequence[str]) -> int:
    if not argv:
        overview = render_overview(program)
        raise SettingsError(f"expected a command, found nothing\n{overview}")
    first, *arguments = argv
    if first in (*HELP, "help"):
        sys.stdout.write(f"{render_overview(program)}\n")
        return 0
    if first == "--version":
        from judgegym.judges.config.extras import (
            package_version,
        )  # late: it reads the installation's metadata

        version = package_version()
        sys.stdout.write(f"judgegym {version}\n")
        return 0
    if first in VERBS:
        return _run_verb(program, first, arguments)
    command = find_command(first)
    if command is None:
        raise _unknown_command_error(program, first)
    with nullcontext() if first in COMMANDS else explain_import_errors(f"{program.name} {first}"):
        module = command.load()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # once it is imported, it may have to clean up
    return cast(int, module.main(arguments, prog=program.usage(first)))


def _unknown_command_error(program: Program, word: str) -> SettingsError:
    """Return the error for a word that is no command."""
    if word.replace("-", "_") in environment_names():
        verb_list = "|".join(VERBS)
        correction = f"{program.name} {verb_list} {word} …"
        return SettingsError(f"{word} is an environment; the verb comes first: {correction}")
    installed, reasons = load_installed_commands()
    hint = suggest_similar(word, [*COMMANDS, *installed])
    lines = [
        f"no command {word!r}{hint}",
        f"{program.name} --help lists all commands",
        reasons.get(NAME, ""),
    ]
    return SettingsError("\n".join(filter(None, lines)))


def _run_verb(program: Program, verb: str, argv: Sequence[str]) -> int:
    """Run a verb of the environment named by the first word; return the exit code."""
    usage = program.usage(verb)
    if argv and argv[0] in HELP:
        names = "\n".join(f"  {name}" for name in environment_names())
        about = cast(dict[str, str], VERBS)[verb]
        list_usage = program.usage("list")
        sys.stdout.write(
            f"usage: {usage} ENV [--name=value …]\n\n{about}\n\n"
            f"environments:\n{names}\n"
            f"or one of your own:\n  {ENVIRONMENT_FORMS}\n\n"
            f"{usage} ENV --help lists its most used settings, --help_all every one.\n"
            f"{list_usage} shows what each environment needs.\n"
        )
        return 0
    if not argv or argv[0].startswith("-"):
        problem = f"found {argv[0]!r}" if argv else "found nothing"
        raise SettingsError(
            f"expected an environment after {verb}, {problem}\n{usage} --help lists them"
        )
    word, *settings = argv
    env_type = load_environment(word)
    from judgegym.environments.command_line import (
        main as command_line,
    )  # late: a misspelt name does not need it

    return command_line.main(env_type, [verb, *settings], replace(program, environment=(word,)))
