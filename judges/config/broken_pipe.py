"""What its output can do to a command: end it without a message if the pipe is closed (`… | head`), and nothing else.

A terminal or locale that lacks a character (`–` in Latin-1) is shown a question mark.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable


def quiet_at_broken_pipe(command: Callable[[], int]) -> int:
    """Run a command and flush its output; returns its exit code, or 141 if the output pipe is closed."""
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
    return code
