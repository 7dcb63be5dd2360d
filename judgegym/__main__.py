"""The command `python -m judgegym`, the same as `judgegym`."""

import sys

from judgegym.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
