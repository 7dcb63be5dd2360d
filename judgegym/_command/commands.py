"""The commands of `judgegym` and what each is for; each is imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from environments.command_line.program import Program

Run = Callable[[Program, str, Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        group: the heading under which the overview lists it.
        words: what follows its name, for the overview.
        about: what it does, in a few words.
        run: runs it, given the program, its own name and the words after it; returns the exit code.
    """

    group: str
    words: str
    about: str
    run: Run


def _verb(program: Program, verb: str, words: Sequence[str]) -> int:
    from judgegym._command.verbs import run_verb

    return run_verb(program, verb, words)


def _list(program: Program, name: str, words: Sequence[str]) -> int:
    from judgegym._command.listing import main

    return main(words, prog=program.usage(name))


def _of_module(module: str) -> Run:
    """The command that is the `main(argv, prog=…)` of a module."""

    def run(program: Program, name: str, words: Sequence[str]) -> int:
        main = cast(Callable[..., int], importlib.import_module(module).main)
        return main(words, prog=program.usage(name))

    return run


COMMANDS: Mapping[str, Command] = {
    "list": Command("environments", "[ENV …]", "show environments, and what each needs", _list),
    "evaluate": Command("environments", "ENV …", "score a policy and print benchmark numbers", _verb),
    "serve": Command("environments", "ENV …", "send judged rollouts to a trainer", _verb),
    "process": Command("environments", "ENV …", "write judged rollouts to a file", _verb),
    "judge-server": Command("servers", "…", "serve judges to trainers over HTTP", _of_module("judges.server.command")),
    "offline-server": Command(
        "servers", "…", "serve the stand-in for policy and judge", _of_module("judges.offline.command")
    ),
}
