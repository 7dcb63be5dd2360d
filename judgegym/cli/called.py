"""What the user has called the program by, so that a printed command works in the same shell."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from judgegym.environments.command_line.program import Program

NAME = "judgegym"


def program_called() -> Program:
    """`judgegym` where the shell finds this one under that name, else its path; or `python -m judgegym`."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return Program(("python", "-m", NAME), (sys.executable, "-m", NAME))
    found = shutil.which(NAME)
    is_on_path = found is not None and path.exists() and path.samefile(found)
    word = NAME if is_on_path else str(path)
    return Program((word,), (word,))
