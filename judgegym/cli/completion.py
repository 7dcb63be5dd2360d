"""`judgegym completion SHELL`: the code that makes a shell complete `judgegym`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from judgegym.cli.called import NAME
from judgegym.judges.config.extras import require

_HOW = """\
put this into the shell's start-up file:
  bash  ~/.bashrc                    source <(judgegym completion bash)
  zsh   ~/.zshrc, after compinit     source <(judgegym completion zsh)
  fish  ~/.config/fish/config.fish   judgegym completion fish | source"""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"Print the code that makes a shell complete {NAME}.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="bash|zsh|fish")
    return parser


def main(argv: Sequence[str], *, prog: str) -> int:
    """Print it; returns the exit code.

    Raises:
        MissingExtraError: argcomplete is not installed.
    """
    shell = parser_of(prog).parse_args(argv).shell
    require("completion")
    from argcomplete.shell_integration import shellcode  # late: it is an extra

    sys.stdout.write(shellcode([NAME], shell=shell))
    return 0
