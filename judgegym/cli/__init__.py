"""The command `judgegym`: entry to environments, data sets, finished runs and servers.

A distribution adds a command by an entry point, whose object is a `Command`:

    # pyproject.toml                              # my_plugin/commands.py
    [project.entry-points."judgegym.commands"]    from judgegym.cli import Command
    hello = "my_plugin.commands:HELLO"            HELLO = Command("say hello", "my_plugin.hello",
    "NAME")

`judgegym --help` and shell completion import every entry point's object, so its module should
import little. The command's module is imported when the command is called.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """A command: its line in `judgegym --help`, and the module that runs it.

    The module defines

        def main(argv: Sequence[str], *, prog: str) -> int: ...
        def make_parser(prog: str) -> argparse.ArgumentParser: ...

    `main` runs the command and returns the exit code. `argv` holds the words after the command's
    name, `prog` the words up to and including it, for usage and messages. A
    `judgegym.SettingsError` is printed as one message, with exit code 2. `make_parser` returns the
    arguments for shell completion; without it, the command's arguments are not completed.

    Attributes:
        about: a short description.
        module: the module.
        arguments: the arguments as the overview shows them.
        group: the heading in the overview: one of JudgeGym's (such as `data sets` or `finished
            runs`), or a new one.
    """

    about: str
    module: str
    arguments: str = ""
    group: str = "plugins"

    def load(self) -> ModuleType:
        """Import the module."""
        return importlib.import_module(self.module)
