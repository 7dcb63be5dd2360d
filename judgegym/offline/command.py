"""Commands `python -m judgegym.offline` and `judgegym offline-server`: serve the stand-in.

One line on standard output tells that the server is ready. A wrong flag or a port in use is one
line on standard error and exit code 2; SIGINT and SIGTERM end the process at once with 130 and 143.
"""

import argparse
import asyncio
import socket
import sys
from collections.abc import Sequence
from itertools import chain

from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.judges.core import event_loop
from judgegym.offline import process
from judgegym.offline.answers import load_prompts
from judgegym.offline.faults import FAULTS, Faults, Outage
from judgegym.offline.process import StandInSettings
from judgegym.offline.server import StandInServer

_FAULTS_HELP = """rates by kind in chat completions, such as {"429": 0.1, "drop": 0.02}; a request
that is sent again draws again. Kinds: the statuses 400 to 599, and """ + ", ".join(
    f"{name} ({fault.about})" for name, fault in FAULTS.items()
)
_AWAY_HELP = """from the arrival of this request on, reset all connections and refuse new ones for
these seconds; may be given several times"""


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Make the parser of the command's flags."""
    serves = (
        "Serve an OpenAI-compatible stand-in for policy and judge: chat completions, which it "
        "streams where a request asks for it, and responses."
    )
    parser = OneLineParser(prog, serves)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=0, help="port; 0 lets the system choose (default: %(default)s)")
    add(
        "--latency_ms",
        type=float,
        default=0.0,
        help="time from arrival to answer (default: %(default)s)",
    )
    add("--faults", default="{}", metavar="JSON", help=_FAULTS_HELP)
    add("--away", action="append", default=[], metavar="REQUEST:SECONDS", help=_AWAY_HELP)
    add(
        "--slow_ms",
        type=float,
        default=5000.0,
        help="time that a slow answer takes (default: %(default)s)",
    )
    add(
        "--retry_after",
        type=int,
        metavar="SECONDS",
        help="send Retry-After with 429 and 503 (default: do not)",
    )
    add(
        "--judge_only",
        action="store_true",
        help="refuse prompts of no known judge, instead of answering as a policy",
    )
    add(
        "--text_only",
        action="store_true",
        help="refuse requests with a response_format, such as a JSON schema",
    )
    add(
        "--prefix_cache",
        action="store_true",
        help="tell how many tokens of a prompt earlier prompts began with",
    )
    prompt = (
        "a further judge: its PromptFormat or JudgeDefinition, also as package.module:NAME, the "
        "name of a kind, or a prompt file FILE.yaml; may be given several times"
    )
    add("--prompt", action="append", default=[], metavar="FILE.py:NAME", help=prompt)
    add("--exit_with_parent", action="store_true", help="end when standard input reaches its end")
    return parser


async def _serve(listener: socket.socket, settings: StandInSettings, exit_with_parent: bool) -> int:
    """Serve on this socket until a signal or the end of input; return the exit code."""
    exit_codes: asyncio.Queue[int] = asyncio.Queue()
    process.stop_on_signals(exit_codes)
    if exit_with_parent:
        process.stop_when_input_ends(exit_codes)
    url = process.make_url(listener)
    async with StandInServer(settings).serving(listener):
        sys.stdout.write(f"listening on {url}\n")
        sys.stdout.flush()
        return await exit_codes.get()


def main(argv: Sequence[str] | None = None, *, prog: str = "python -m judgegym.offline") -> int:
    """Serve until stopped.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name, for messages.

    Returns:
        The exit code.
    """
    parser = make_parser(prog)
    options = parser.parse_args(argv)
    event_loop.raise_open_file_limit()
    try:
        prompts = [*chain.from_iterable(map(load_prompts, options.prompt))]
        faults = Faults.parse(options.faults)
        away = [Outage.parse(text) for text in options.away]
        names = ("latency_ms", "slow_ms", "retry_after", "judge_only", "prefix_cache", "text_only")
        plain_options = {name: getattr(options, name) for name in names}
        settings = StandInSettings(faults=faults, away=away, prompts=prompts, **plain_options)
        listener = process.listen(options.host, options.port)
    except ValueError as error:
        parser.error(str(error))
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on --host {options.host} --port {options.port}: {error}")
    try:
        return event_loop.run(_serve(listener, settings, options.exit_with_parent))
    except KeyboardInterrupt:  # before the event loop handled the signal
        return 130
