"""Where the program begins: Ctrl-C ends it without a traceback from here on, before anything else is imported."""

import os
import signal


def main() -> int:
    """Run the command line of this process; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command handles it
    if "_ARGCOMPLETE" in os.environ:  # the shell asks how the line may go on
        from judgegym.cli.completion import complete

        complete()
    from judgegym.cli import commands  # late: see above

    return commands.main()
