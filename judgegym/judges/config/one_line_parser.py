"""The argument parser of the small commands, which have flags and no settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import NoReturn

from judgegym.judges.config.guesses import did_you_mean_flags

BAD_INPUT = 2


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error, with exit code 2; flags cannot be abbreviated."""

    def __init__(self, prog: str, description: str) -> None:
        """Name the program, and say what it does for `--help`."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit."""
        unknown = re.match(r"unrecognized arguments: --([^ =]+)", message)
        flags = [option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"]
        hint = did_you_mean_flags(unknown[1], flags) if unknown is not None else ""
        self.exit(BAD_INPUT, f"{self.prog}: {' '.join(message.split())}{hint}\n")


def whole_number(least: int) -> Callable[[str], int]:
    """The type of a flag that takes whole numbers from this one on."""

    def read(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, found {word}")
        return int(word)

    return read
