"""`judgegym view FOLDER`, or `python -m judgegym.reports.view`: a page over all runs in a folder.

Exit codes: 2 for wrong input or a port in use; 130 after Ctrl-C and 143 after SIGTERM, the usual
ends; 141 if the output pipe is closed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.one_line_parser import OneLineParser

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT = 8300
_DESCRIPTION = """Show all runs in a folder, at any depth, in a browser: a list with result,
judge, data, cost and date. Each run opens its report, which is made if it is missing or older
than the samples; ticked runs are compared. Nothing in the folder is changed, symbolic links in it
are not followed, and no other machine can connect."""


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    parser = OneLineParser(prog, _DESCRIPTION)
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the folder with the runs, such as runs/"
    )
    add_address(parser, PORT)
    return parser


def add_address(parser: argparse.ArgumentParser, port: int) -> None:
    """Add the flags for the address of a page; `port` is the default port."""
    add = parser.add_argument
    add(
        "--port",
        type=_port_number,
        default=port,
        help="the port; 0 takes a free one (default: %(default)s)",
    )
    add(
        "--host",
        choices=LOOPBACK,
        default=LOOPBACK[0],
        help="the address of this machine (default: %(default)s)",
    )
    add("--open", action="store_true", help="open the page in the browser")


def main(
    argv: Sequence[str] | None = None, *, prog: str = "python -m judgegym.reports.view"
) -> int:
    """Run the command until a signal stops it.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        The exit code.
    """

    def command() -> int:
        flags = make_parser(prog).parse_args(argv)
        from judgegym.judges.core import event_loop
        from judgegym.reports.view.server import serve  # late: help and errors come at once

        return event_loop.run(
            serve(flags.folder.expanduser(), flags.host, flags.port, opens=flags.open)
        )

    return exit_code(command)


def _port_number(word: str) -> int:
    """Parse a flag's value as a port."""
    try:
        port = int(word)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535, found {word}")
    return port


if __name__ == "__main__":
    sys.exit(main())
