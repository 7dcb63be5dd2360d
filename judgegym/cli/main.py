"""`judgegym COMMAND …`: find the command and run it, with the exit code that it ends with.

Each command is imported when it is called, so that help, errors and completion come at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from judgegym.cli.commands import COMMANDS, overview, program_called, run_verb
from judgegym.environments.command_line.program import VERBS, Program
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.core.naming import did_you_mean
from judgegym.llm.errors import SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the command line without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    if "_ARGCOMPLETE" in os.environ:  # the shell asks how the line may go on
        from judgegym.cli.completion import complete

        complete()
    words = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _run(program_called(), words))


def _run(program: Program, words: Sequence[str]) -> int:
    if not words:
        raise SettingsError(f"expected a command, found nothing\n{overview(program)}")
    first, *rest = words
    if first in ("--help", "-h", "--help_all", "help"):
        sys.stdout.write(f"{overview(program)}\n")
        return 0
    if first == "--version":
        from judgegym.judges.config.extras import package_version  # late: it reads the installation's metadata

        sys.stdout.write(f"judgegym {package_version()}\n")
        return 0
    if first not in COMMANDS:
        raise _unknown(program, first)
    if first in VERBS:
        return run_verb(program, first, rest)
    command = COMMANDS[first].load()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is imported: from here on it may have to clean up
    return command.main(rest, prog=program.usage(first))


def _unknown(program: Program, word: str) -> SettingsError:
    from judgegym.cli.environments import built_in  # late: it looks at folders

    shown = program.name
    if word.replace("-", "_") in built_in():
        return SettingsError(f"{word} is an environment; the verb comes first: {shown} {'|'.join(VERBS)} {word} …")
    return SettingsError(f"no command {word!r}{did_you_mean(word, COMMANDS)}\n{shown} --help lists all commands")
