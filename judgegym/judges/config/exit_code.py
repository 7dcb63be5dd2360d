"""How a command ends: its exit code, and one message where it cannot go on.

A closed output pipe (`… | head`) ends it without a message. A terminal or locale that lacks a
character (`–` in Latin-1) is shown a question mark. A path that the system refuses (too long, not
permitted, a loop of links), wherever it came from, is a user error.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable

from judgegym.judges.config.extras import find_missing_extra
from judgegym.llm.errors import UserError

BAD_INPUT = 2

_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
_STRICT_HANDLERS = ("strict", "surrogateescape")
"""What Python does with a character that the output lacks: of the locale C it writes the bytes of file names."""
_PATH_ERRORS = frozenset(
    {
        errno.ENAMETOOLONG,
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EROFS,
    }
)


def remove_control_characters(text: str) -> str:
    """Return the text, which may have several lines, without what a terminal would obey or what it cannot be sent."""
    return _CONTROL_CHARACTERS.sub("�", text)


def exit_code(command: Callable[[], int]) -> int:
    """Run a command: 2 with a message if its input is wrong, 130 after Ctrl-C, 141 if the output pipe is closed.

    An endpoint's outage ends it with 2 if the endpoint was never there, and with 1 if it rejects
    every request; an alarm of a monitor with 3.
    """
    try:
        return run_and_flush(command)
    except UserError as error:
        message, code = str(error), getattr(error, "exit_code", BAD_INPUT)
    except ModuleNotFoundError as error:
        missing = find_missing_extra(error)
        if missing is None:
            raise
        message, code = str(missing), BAD_INPUT
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    sys.stderr.write(f"{remove_control_characters(message)}\n")
    return code


def run_and_flush(command: Callable[[], int]) -> int:
    """Run a command and flush its output; returns its exit code, or 141 if the output pipe is closed.

    Raises:
        UserError: the system refuses a path; the message names it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in _STRICT_HANDLERS:
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
        if error.errno not in _PATH_ERRORS or error.filename is None:
            raise
        raise UserError(f"{error.filename}: {error.strerror}") from error
    return code
