"""`judgegym completion SHELL`: print the shell's completion code, and answer its requests.

The shell calls `judgegym` with the line so far in environment variables (argcomplete's protocol).
Imports are lazy: an environment's settings are imported once its name is typed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

from judgegym.cli.commands import COMMANDS, NAME, find_command, load_installed_commands
from judgegym.cli.environments import environment_names, load_environment
from judgegym.environments.command_line.program import VERBS
from judgegym.judges.config.extras import require

_EPILOG = """\
put this into the shell's start-up file:
  bash  ~/.bashrc                    source <(judgegym completion bash)
  zsh   ~/.zshrc, after compinit     source <(judgegym completion zsh)
  fish  ~/.config/fish/config.fish   judgegym completion fish | source"""


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"Print the code that makes a shell complete {NAME}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="bash|zsh|fish")
    return parser


def main(argv: Sequence[str], *, prog: str) -> int:
    """Print the completion code; return the exit code.

    Raises:
        MissingExtraError: argcomplete is not installed.
    """
    shell = make_parser(prog).parse_args(argv).shell
    require("completion")
    from argcomplete.shell_integration import shellcode  # late: it is an extra

    sys.stdout.write(shellcode([NAME], shell=shell))
    return 0


def complete() -> NoReturn:
    """Print completions for the shell and end the process; nothing for an invalid line."""
    import argcomplete  # late: it is an extra
    from argcomplete.lexers import split_line

    _, _, _, typed, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    with suppress(Exception):  # Enter will report what is wrong with the line or its file
        skipped, parser = _select_parser(typed[1:])
        os.environ["_ARGCOMPLETE"] = str(skipped + 1)  # the parser gets the words from there on
        argcomplete.autocomplete(parser, always_complete_options=skipped > 1)
    os._exit(1)


def _select_parser(words: Sequence[str]) -> tuple[int, argparse.ArgumentParser]:
    """Return the parser for the words after these, and how many words it skips."""
    if not words:
        installed, _ = load_installed_commands()
        commands = {**COMMANDS, **installed}
        return 0, _word_parser(
            {name: command.about for name, command in commands.items()}, "--help", "--version"
        )
    name = words[0]
    if name not in VERBS:
        command = find_command(name)
        assert command is not None  # otherwise the line is invalid: see `complete`
        return 1, command.load().make_parser(name)
    if len(words) == 1:
        return 1, _word_parser(
            dict.fromkeys(environment_names(), "environment"), "--help", ending="py"
        )
    return 2, _settings_parser(name, words[1])


def _word_parser(
    choices: Mapping[str, str], *flags: str, ending: str = ""
) -> argparse.ArgumentParser:
    """Return a parser of one word out of several described choices.

    With `ending`, also files of that ending, once their name has begun.
    """
    from argcomplete.completers import FilesCompleter

    parser = argparse.ArgumentParser(add_help=False)
    for flag in flags:
        parser.add_argument(flag, action="store_true")

    def choose(prefix: str, **_: object) -> Mapping[str, str]:
        files = FilesCompleter([ending])(prefix) if ending and prefix else ()
        return {**dict.fromkeys(files, "file"), **choices}

    cast(Any, parser.add_argument("word")).completer = choose
    return parser


def _settings_parser(verb: str, word: str) -> argparse.ArgumentParser:
    """Return a parser of the settings of an environment's verb."""
    from judgegym.environments.command_line.arguments import (
        make_settings_type,
    )  # late: they take long to import
    from judgegym.judges.config.reading.help import make_flags_parser

    return make_flags_parser(make_settings_type(load_environment(word)), verb=verb)
