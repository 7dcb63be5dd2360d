"""The commands of `judgegym`, what each is for, and the module that it is imported from when it is called.

Each command is imported when it is called, so that help, errors and completion come at once. A printed command begins
as the user has called the program, so that it works in the same shell. `judgegym --help` says which commands there are,
where the help of each is, and how commands end.
"""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, cast

from judgegym.cli.environments import FORMS, built_in, load_environment
from judgegym.environments.command_line.program import VERBS, Program
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.core.naming import did_you_mean
from judgegym.llm.errors import SettingsError


class Command(NamedTuple):
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

    def load(self) -> ModuleType:
        """Import its module."""
        return importlib.import_module(self.module)


_ENVIRONMENTS, _DATA, _TRIAL, _RUNS = "environments", "data sets", "judges on trial", "finished runs"
_SERVERS, _SHELL, _REPLAY = "servers", "shell", "judgegym_trials.replay.command"
COMMANDS: Mapping[str, Command] = {
    "list": Command(_ENVIRONMENTS, "[ENV …]", "show environments, and what each needs", "judgegym.cli.listing"),
    "evaluate": Command(_ENVIRONMENTS, "ENV …", "score a policy and print benchmark numbers"),
    "serve": Command(_ENVIRONMENTS, "ENV …", "send judged rollouts to a trainer"),
    "process": Command(_ENVIRONMENTS, "ENV …", "write judged rollouts to a file"),
    "score": Command(_DATA, "DATA --out FILE …", "judge the rows of a data set", "judgegym.datasets.score.command"),
    "select": Command(_DATA, "SCORED --out FILE", "take the best rows, or pairs", "judgegym.datasets.select.command"),
    "audit": Command(_TRIAL, "DATA", "check a judge on labelled rows", "judgegym_trials.audit.command"),
    "attack": Command(_TRIAL, "DATA --out DIR …", "which texts a judge pays for", "judgegym_trials.attacks.command"),
    "label": Command(_TRIAL, "RUN", "label rows of a run by hand", "judgegym_trials.labelling.command"),
    "cascade": Command(_TRIAL, "RUN RUN", "choose the threshold of a cascade", _REPLAY),
    "replay": Command(_TRIAL, "RUN RUN …", "juries and cascades of finished runs", _REPLAY),
    "report": Command(_RUNS, "RUN", "write the page of a run, report.html", "judgegym.reports.__main__"),
    "compare": Command(_RUNS, "RUN RUN …", "compare runs on the rows they share", "judgegym.reports.compare.__main__"),
    "view": Command(_RUNS, "FOLDER", "show all runs of a folder in a browser", "judgegym.reports.view.__main__"),
    "batch": Command(_RUNS, "RUN", "show and cancel the batches of a run", "judgegym.cli.batch"),
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
mend in settings, data or run directory, said in one message; 3 a budget is
spent, or an alarm ended serve; 4 a check of an audit fails, an attack succeeds,
or a cascade has no threshold; 130 Ctrl-C, 143 SIGTERM (finished rows are on
disk); 141 the output pipe is closed."""


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the command line without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _run(program_called(), words))


def _run(program: Program, words: Sequence[str]) -> int:
    if not words:
        raise SettingsError(f"expected a command, found nothing\n{overview(program)}")
    first, *rest = words
    if first in (*HELP, "help"):
        sys.stdout.write(f"{overview(program)}\n")
        return 0
    if first == "--version":
        from judgegym.judges.config.extras import package_version  # late: it reads the installation's metadata

        sys.stdout.write(f"judgegym {package_version()}\n")
        return 0
    if first in VERBS:
        return _run_verb(program, first, rest)
    if first not in COMMANDS and first.replace("-", "_") in built_in():
        right = f"{program.name} {'|'.join(VERBS)} {first} …"
        raise SettingsError(f"{first} is an environment; the verb comes first: {right}")
    if first not in COMMANDS:
        hint = did_you_mean(first, COMMANDS)
        raise SettingsError(f"no command {first!r}{hint}\n{program.name} --help lists all commands")
    command = COMMANDS[first].load()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is imported: from here on it may have to clean up
    return cast(int, command.main(rest, prog=program.usage(first)))


def _run_verb(program: Program, verb: str, words: Sequence[str]) -> int:
    """Run a verb of the environment that the first word names; returns the exit code."""
    usage = program.usage(verb)
    if words and words[0] in HELP:
        names = "\n".join(f"  {name}" for name in built_in())
        sys.stdout.write(
            f"usage: {usage} ENV [--name=value …]\n\n{cast(dict[str, str], VERBS)[verb]}\n\nenvironments:\n{names}\n"
            f"or one of your own:\n  {FORMS}\n\n"
            f"{usage} ENV --help lists its most used settings, --help_all every one.\n"
            f"{program.usage('list')} shows what each environment needs.\n"
        )
        return 0
    if not words or words[0].startswith("-"):
        found = f"found {words[0]!r}" if words else "found nothing"
        raise SettingsError(f"expected an environment after {verb}, {found}\n{usage} --help lists them")
    word, *settings = words
    env_type = load_environment(word)
    from judgegym.environments.command_line import main as command_line  # late: a misspelt name needs none of it

    return command_line.main(env_type, [verb, *settings], replace(program, environment=(word,)))
