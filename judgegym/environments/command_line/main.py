"""The command line of every environment, and its exit codes.

0: done. 1: too many failures, or nothing succeeded. 2: something to mend in settings, data or run directory, said in
one message. 130 and 143: stopped by Ctrl-C or SIGTERM; finished rows are on disk. 141: the output pipe is closed.

What a command needs is imported once its settings are right, so that help and messages come at once.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from judgegym.engine import terminal
from judgegym.engine.command import exit_code_of, run_command
from judgegym.environments.command_line.arguments import command_help, load_settings, overview, read_verb
from judgegym.environments.command_line.program import Program
from judgegym.judges.config.help import help_requested

if TYPE_CHECKING:
    from judgegym.environments.base import JudgedEnv


def main(
    env_type: type[JudgedEnv[Any, Any, Any]], argv: Sequence[str] | None = None, program: Program | None = None
) -> int:
    """Run a command.

    Args:
        env_type: the environment.
        argv: the command line without the program's name; the process's own by default.
        program: how the user has called it; by default as the script that this process runs.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = " ".join(arguments[:1])
    return exit_code_of(verb, lambda: _run(env_type, program or Program.of_script(), arguments))


def _run(env_type: type[JudgedEnv[Any, Any, Any]], program: Program, arguments: Sequence[str]) -> int:
    if arguments[:1] in (["--help"], ["-h"]):
        terminal.say(overview(program))
        return 0
    typed = read_verb(program, arguments)
    detail = help_requested(typed.settings)
    if detail is not None:
        terminal.say(command_help(env_type, typed, detail))
        return 0
    loaded = load_settings(env_type, typed.settings, verb=typed.verb)
    if loaded.settings.show_config is not None:
        terminal.show_config(loaded.lines(show=loaded.settings.show_config))
        return 0
    for note in loaded.notes:
        terminal.warn(note)

    def start() -> Coroutine[Any, Any, int]:
        from judgegym.environments.command_line import commands  # late: see the module

        command = {"evaluate": commands.evaluate, "serve": commands.serve, "process": commands.process}[typed.verb]
        return command(env_type, loaded, typed)

    return run_command(f"{typed.verb} {env_type.name}", loaded, start, debug=loaded.settings.env.full_debug)
