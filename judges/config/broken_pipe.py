"""Ends a command without a message if its output pipe is closed (`… | head`), with the exit code of SIGPIPE."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def quiet_at_broken_pipe(command: Callable[[], int]) -> int:
    """Run a command and flush its output; returns its exit code, or 141 if the output pipe is closed."""
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # otherwise the interpreter reports at exit that it could not flush
        os.close(nowhere)
        return 128 + signal.SIGPIPE
    return code
