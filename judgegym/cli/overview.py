"""`judgegym --help`: which commands there are, where the help of each is, and how commands end."""

from __future__ import annotations

from judgegym.cli.commands import COMMANDS
from judgegym.environments.command_line.program import Program

_WIDTH = 24
_EXIT_CODES = """\
Exit codes: 0 done; 1 too many failures, or nothing succeeded; 2 something to
mend in settings, data or run directory, said in one message; 130 Ctrl-C,
143 SIGTERM (finished rows are on disk); 141 the output pipe is closed."""


def overview(program: Program) -> str:
    """The whole page, at most 80 columns wide."""
    groups: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        called = f"{name} {command.words}".rstrip()
        groups.setdefault(command.group, []).append(f"  {called:<{_WIDTH}}  {command.about}")
    listed = "\n".join(f"{group}:\n" + "\n".join(lines) for group, lines in groups.items())
    name = program.name
    return f"""\
usage: {name} COMMAND …

Train and evaluate language models where the reward is another model's judgment.

{listed}

ENV is a name that `{name} list` shows, or an environment of your own:
path/to/file.py, path/to/file.py:Class or package.module:Class.

{name} COMMAND --help          what a command takes
{name} evaluate ENV --help     the most used settings; --help_all: every one
{name} --version               the version

{_EXIT_CODES}"""
