"""The command `python -m judgegym.server`."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # until the command handles it, Ctrl-C ends the process without a traceback
    from judgegym.server.command import main

    sys.exit(main())
