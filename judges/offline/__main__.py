"""The command `python -m judges.offline`: serve until stopped.

One line on standard output says that the server is ready. A wrong flag or a port in use is one line on standard error
and exit code 2; SIGINT and SIGTERM end the process at once with 130 and 143.
"""

import argparse
import asyncio
import math
import socket
import sys
from typing import NoReturn

from aiohttp import web

from judges.offline import lifetime
from judges.offline.faults import Faults
from judges.offline.server import ServerSettings, StandInServer


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def _faults(text: str) -> Faults:
    try:
        return Faults.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be an integer from 0 to 65535, not {text!r}")
    return int(text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")
    return value


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, not {text!r}")
    return int(text)


def _arguments() -> _Parser:
    parser = _Parser(
        prog="python -m judges.offline",
        description="Serve an OpenAI-compatible stand-in for policy and judge.",
        allow_abbrev=False,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="port; 0 lets the system choose (default: %(default)s)")
    parser.add_argument(
        "--latency_ms", type=_milliseconds, default=0.0, help="time from arrival to answer (default: %(default)s)"
    )
    parser.add_argument(
        "--faults",
        type=_faults,
        default=Faults(),
        metavar="JSON",
        help='rates by kind, such as {"429": 0.1, "drop": 0.02}; kinds: 400 to 599, drop (close the connection), '
        "timeout (never answer), garbage (noise for text), malformed (no JSON), empty (no text)",
    )
    parser.add_argument(
        "--retry_after", type=_seconds, metavar="SECONDS", help="send Retry-After with 429 and 503 (default: do not)"
    )
    parser.add_argument("--exit_with_parent", action="store_true", help="end when standard input reaches its end")
    return parser


async def _serve(listener: socket.socket, settings: ServerSettings, exit_with_parent: bool) -> int:
    """Serve on this socket until a signal or the end of input; returns the exit code."""
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    lifetime.stop_on_signals(stopped)
    if exit_with_parent:
        lifetime.stop_at_end_of_input(stopped)
    runner = StandInServer(settings).runner()
    await runner.setup()
    await web.SockSite(runner, listener, backlog=lifetime.BACKLOG).start()
    sys.stdout.write(f"listening on {lifetime.url_of(listener)}\n")
    sys.stdout.flush()
    code = await stopped
    await runner.cleanup()
    return code


def main() -> int:
    """Run the command; returns the exit code."""
    parser = _arguments()
    options = parser.parse_args()
    lifetime.allow_many_connections()
    try:
        listener = lifetime.listen(options.host, options.port)
    except OSError as error:
        parser.error(f"cannot listen on {options.host} port {options.port}: {error.strerror or error}")
    settings = ServerSettings(options.latency_ms, options.faults, options.retry_after)
    try:
        return asyncio.run(_serve(listener, settings, options.exit_with_parent))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
