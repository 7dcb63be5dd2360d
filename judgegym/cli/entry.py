"""Where the program begins: Ctrl-C ends it without a traceback from here on, before anything else is imported."""

import signal


def main() -> int:
    """Run the command line of this process; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command handles it
    from judgegym.cli import commands  # late: see above

    return commands.main()
