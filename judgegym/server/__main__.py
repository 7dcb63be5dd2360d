"""The command `python -m judgegym.server`."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    # Until the command handles Ctrl-C, it ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from judgegym.server.command import main

    sys.exit(main())
