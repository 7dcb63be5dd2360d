"""The end of a command: its exit code, and one message if it failed.

A closed output pipe (`… | head`) ends it without a message. If a terminal or locale lacks a
character (`–` in Latin-1), a question mark is shown. A path that the system refuses (too long, not
permitted, a loop of links) is always a user error. The codes of all commands:

* `0`: done
* `1`: too many failures (`max_judge_error_rate`), too few groups, rows that `--retry_failed` left
  open, nothing succeeded, or an endpoint that rejects every request
* `2`: an error in settings, data or run directory; a full disk; an endpoint that was never there
* `3`: the budget is spent, or an alarm ended `serve`; the message has the resume command
* `4`: a check of `audit` fails, an attack of `attack` succeeds, or `replay --choose` can promise
  nothing
* `130`: stopped by Ctrl-C; the message says how to resume
* `141`: the output pipe was closed
* `143`: stopped by SIGTERM; the message says how to resume
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
"""Python's error handlers that raise for a character that the output lacks."""
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
    """Replace control characters and unsendable ones in a text of one or more lines."""
    return _CONTROL_CHARACTERS.sub("�", text)


def exit_code(command: Callable[[], int]) -> int:
    """Run a command: 2 if its input is wrong, 130 after Ctrl-C, 141 for a closed output pipe.

    Also: 2 if an endpoint was never reachable, 1 if it rejects every request, 3 after a monitor's
        alarm.
    """
    try:
        return run_and_flush(command)
    except UserError as error:
        message = str(error)
        code = getattr(error, "exit_code", BAD_INPUT)
    except ModuleNotFoundError as error:
        missing = find_missing_extra(error)
        if missing is None:
            raise
        message, code = str(missing), BAD_INPUT
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    printable = remove_control_characters(message)
    sys.stderr.write(f"{printable}\n")
    return code


def run_and_flush(command: Callable[[], int]) -> int:
    """Run a command and flush its output; return its exit code, or 141 for a closed pipe.

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
        os.dup2(nowhere, 1)  # otherwise the interpreter reports a failed flush at exit
        os.close(nowhere)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in _PATH_ERRORS or error.filename is None:
            raise
        raise UserError(f"{error.filename}: {error.strerror}") from error
    return code
