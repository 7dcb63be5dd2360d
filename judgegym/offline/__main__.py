"""Command `python -m judgegym.offline`."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    # Ctrl-C while libraries load ends the process; later the server handles it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from judgegym.offline.command import main

    sys.exit(main())
