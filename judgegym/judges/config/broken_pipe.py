"""What its output can do to a command: end it without a message if the pipe is closed (`… | head`).

A terminal or locale that lacks a character (`–` in Latin-1) is shown a question mark.

A path that the system refuses (too long, not permitted, a loop of links), wherever it came from, is a user error.

The argument parser of the small commands, which have flags and no settings.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from judgegym.judges.config.guesses import did_you_mean_flags
from judgegym.llm.errors import UserError

_REFUSED = frozenset(
    {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EROFS}
)


def quiet_at_broken_pipe(command: Callable[[], int]) -> int:
    """Run a command and flush its output; returns its exit code, or 141 if the output pipe is closed.

    Raises:
        UserError: the system refuses a path; the message names it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # otherwise the interpreter reports at exit that it could not flush
        os.close(nowhere)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in _REFUSED or error.filename is None:
            raise
        raise UserError(f"{error.filename}: {error.strerror}") from error
    return code


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
