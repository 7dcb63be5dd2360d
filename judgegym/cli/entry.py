"""The program's entry point: Ctrl-C ends it without a traceback from its first import on."""

import os
import signal


def main() -> int:
    """Run this process's command line; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command handles it
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        from judgegym.cli.completion import complete

        complete()
    from judgegym.cli import commands  # late: see above

    return commands.main()
