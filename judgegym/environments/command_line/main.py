"""Command line of every environment, and its exit codes.

0: done. 1: too many failures, or nothing succeeded. 2: an error in settings, data or run directory,
explained in one message. 3: the budget is spent, or an alarm ended the run. 130 and 143: stopped by
Ctrl-C or SIGTERM; finished rows are on disk. 141: the output pipe is closed.

Modules of a command are imported once its settings are valid, so that help and messages are fast.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, cast

from judgegym.engine import terminal
from judgegym.engine.command import run_command, run_to_exit_code, settings_to_run
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.arguments import (
    GROUPS,
    EnvType,
    list_common_settings,
    load_settings,
    make_settings_type,
)
from judgegym.environments.command_line.program import VERBS, CommandLine, Program
from judgegym.judges.config.reading.choices import select_settings
from judgegym.judges.config.reading.help import render_help
from judgegym.llm.errors import SettingsError


def main(
    env_type: EnvType, argv: Sequence[str] | None = None, program: Program | None = None
) -> int:
    """Run a command.

    Args:
        env_type: the environment.
        argv: the command line without the program's name; the process's own by default.
        program: how the user has called the program; by default as the script of this process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = " ".join(arguments[:1])
    return run_to_exit_code(
        verb, lambda: _run(env_type, program or Program.from_script(), arguments)
    )


def _run(env_type: EnvType, program: Program, arguments: Sequence[str]) -> int:
    usage = program.usage("VERB")
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    help_of_verbs = f"{usage} --help lists a verb's most used settings, --help_all every one."
    overview = f"usage: {usage} [--name=value …]\n\n{verbs}\n\n{help_of_verbs}"
    if arguments[:1] in (["--help"], ["-h"]):
        terminal.say(overview)
        return 0
    if not arguments or arguments[0] not in VERBS:
        choices = ", ".join(VERBS)
        actual = f"found {arguments[0]!r}" if arguments else "found nothing"
        raise SettingsError(
            f"expected one of {choices} as the first argument, {actual}\n{overview}"
        )
    typed = CommandLine(program, cast(Verb, arguments[0]), arguments[1:])
    settings = select_settings(make_settings_type(env_type), typed.settings)
    page = partial(
        render_help,
        settings,
        usage=program.usage(typed.verb),
        about=VERBS[typed.verb],
        groups=GROUPS,
        verb=typed.verb,
        most_used=list_common_settings(settings, typed.verb),
        words=typed.settings,
    )
    loaded = settings_to_run(
        typed.settings, page, lambda: load_settings(env_type, typed.settings, verb=typed.verb)
    )
    if loaded is None:
        return 0
    for note in loaded.notes:
        terminal.warn(note)

    def start() -> Coroutine[Any, Any, int]:
        from judgegym.environments.command_line import commands  # late: see the module

        command = {
            "evaluate": commands.evaluate,
            "serve": commands.serve,
            "process": commands.process,
        }[typed.verb]
        return command(env_type, loaded, typed)

    return run_command(
        f"{typed.verb} {env_type.spec.name}", loaded, start, debug=loaded.settings.env.full_debug
    )
