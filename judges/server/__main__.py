"""The command `python -m judges.server`."""

from __future__ import annotations

import sys

from judges.server.command import main

if __name__ == "__main__":
    sys.exit(main())
