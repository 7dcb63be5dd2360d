"""`judgegym select SCORED --out FILE`: from the command line to the exit code.

Exit codes: 0 done; 2 wrong input, or nothing to select, with one message; 130 Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.datasets.select.options import SelectOptions, complete_flags, make_parser
from judgegym.judges.config.exit_code import exit_code

__all__ = ["main", "make_parser"]


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: the command's arguments.
        prog: the program's name in messages.

    Returns:
        The exit code.
    """
    flags = make_parser(prog).parse_args(argv, SelectOptions())

    def command() -> int:
        complete_flags(flags)
        from judgegym.datasets.select.run import run  # late: errors of flags come at once

        return run(flags, list(argv))

    return exit_code(command)
