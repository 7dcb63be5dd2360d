"""The commands of `judgegym`, what each is for, and the module that it is imported from when it is called.

A printed command begins as the user has called the program, so that it works in the same shell. `judgegym --help` says
which commands there are, where the help of each is, and how commands end.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from judgegym.cli.environments import FORMS, built_in, load_environment
from judgegym.environments.command_line.program import VERBS, Program
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    import argparse


class CommandModule(Protocol):
    """What the module of a command offers; those of an environment's verbs take the environment beside it."""

    def main(self, argv: Sequence[str], *, prog: str) -> int:
        """Run the command."""

    def parser_of(self, prog: str) -> argparse.ArgumentParser:
        """Its arguments, for completion."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        group: the heading under which the overview lists it.
        words: what follows its name, for the overview.
        about: what it does, in a few words.
        module: where its `main` and `parser_of` are; empty for the verbs of an environment.
    """

    group: str
    words: str
    about: str
    module: str = ""

    def load(self) -> CommandModule:
        """Import its module."""
        return cast(CommandModule, importlib.import_module(self.module))


_ENVIRONMENTS, _DATA, _RUNS, _SERVERS, _SHELL = "environments", "data sets", "finished runs", "servers", "shell"
COMMANDS: Mapping[str, Command] = {
    "list": Command(_ENVIRONMENTS, "[ENV …]", "show environments, and what each needs", "judgegym.cli.listing"),
    "evaluate": Command(_ENVIRONMENTS, "ENV …", "score a policy and print benchmark numbers"),
    "serve": Command(_ENVIRONMENTS, "ENV …", "send judged rollouts to a trainer"),
    "process": Command(_ENVIRONMENTS, "ENV …", "write judged rollouts to a file"),
    "score": Command(_DATA, "DATA --out FILE …", "judge the rows of a data set", "judgegym.datasets.score.command"),
    "select": Command(_DATA, "SCORED --out FILE", "take the best rows, or pairs", "judgegym.datasets.select.command"),
    "report": Command(_RUNS, "RUN", "write the page of a run, report.html", "judgegym.reports.__main__"),
    "compare": Command(_RUNS, "RUN RUN …", "compare runs on the rows they share", "judgegym.reports.compare.__main__"),
    "view": Command(_RUNS, "FOLDER", "show all runs of a folder in a browser", "judgegym.reports.view.__main__"),
    "repair": Command(_RUNS, "RUN", "keep what can be read of a damaged run", "judgegym.cli.repair"),
    "judge-server": Command(_SERVERS, "…", "serve judges to trainers over HTTP", "judgegym.server.command"),
    "offline-server": Command(_SERVERS, "…", "serve the stand-in for policy and judge", "judgegym.offline.command"),
    "completion": Command(_SHELL, "SHELL", "complete judgegym in bash, zsh or fish", "judgegym.cli.completion"),
}

NAME = "judgegym"
HELP = ("--help", "-h", "--help_all", "--help-all")
_WIDTH = 24
_EXIT_CODES = """\
Exit codes: 0 done; 1 too many failures, or nothing succeeded; 2 something to
mend in settings, data or run directory, said in one message; 130 Ctrl-C,
143 SIGTERM (finished rows are on disk); 141 the output pipe is closed."""


def program_called() -> Program:
    """`judgegym` where the shell finds this one under that name, else its path; or `python -m judgegym`."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return Program(("python", "-m", NAME), (sys.executable, "-m", NAME))
    found = shutil.which(NAME)
    is_on_path = found is not None and path.exists() and path.samefile(found)
    word = NAME if is_on_path else str(path)
    return Program((word,), (word,))


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


def run_verb(program: Program, verb: str, words: Sequence[str]) -> int:
    """Run a verb of the environment that the first word names; returns the exit code.

    Raises:
        SettingsError: there is no such environment.
    """
    if words and words[0] in HELP:
        sys.stdout.write(f"{help_of_verb(program, verb)}\n")
        return 0
    if not words or words[0].startswith("-"):
        found = f"found {words[0]!r}" if words else "found nothing"
        raise SettingsError(f"expected an environment after {verb}, {found}\n{program.usage(verb)} --help lists them")
    word, *settings = words
    env_type = load_environment(word)
    from judgegym.environments.command_line.main import main  # late: a misspelt name needs none of it

    return main(env_type, [verb, *settings], replace(program, environment=(word,)))


def help_of_verb(program: Program, verb: str) -> str:
    """Which environments there are, and where the help of their settings is."""
    names = "\n".join(f"  {name}" for name in built_in())
    usage = program.usage(verb)
    return (
        f"usage: {usage} ENV [--name=value …]\n\n{cast(dict[str, str], VERBS)[verb]}\n\nenvironments:\n{names}\n"
        f"or one of your own:\n  {FORMS}\n\n"
        f"{usage} ENV --help lists its most used settings, --help_all every one.\n"
        f"{program.usage('list')} shows what each environment needs."
    )
