"""A reader of the output that goes away (`… | head`) ends a command quietly, with the exit code that SIGPIPE has."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def quiet_at_broken_pipe(command: Callable[[], int]) -> int:
    """Run a command and write out what it said; returns its exit code, or 141 where nobody reads it any more."""
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # or the interpreter reports at its end what it could not flush
        os.close(nowhere)
        return 128 + signal.SIGPIPE
    return code
