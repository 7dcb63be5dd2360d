"""What its output can do to a command: end it without a message if the pipe is closed (`… | head`).

A terminal or locale that lacks a character (`–` in Latin-1) is shown a question mark.

A path that the system refuses (too long, not permitted, a loop of links), wherever it came from, is a user error.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable

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
