"""`judgegym evaluate|serve|process ENV …`: the commands of an environment, by its name, its file or its class."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from judgegym.cli.environments import FORMS, built_in, load_environment
from judgegym.environments.command_line.program import VERBS, Program
from judgegym.llm.errors import SettingsError

HELP = ("--help", "-h", "--help_all", "--help-all")


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
