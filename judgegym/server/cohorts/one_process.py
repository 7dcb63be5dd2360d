"""Judges that gather single responses need a server of one process, which all members of a cohort reach."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from judgegym.llm.errors import SettingsError

_SERVERS = frozenset({"uvicorn", "gunicorn", "hypercorn", "granian"})
_FLAG = re.compile(r"(?:-w|--workers)(?:=?(\d+))?", re.ASCII)


def check_one_process(gathering: Sequence[str], workers: int = 1) -> None:
    """Check that a server runs one process if its judges gather responses.

    Args:
        gathering: the names of the judges that gather single responses.
        workers: the processes of our own command; those of an ASGI server are found as far as its processes can tell.

    Raises:
        SettingsError: there are several.
    """
    if not gathering:
        return
    count = processes(sys.argv, os.environ) if workers == 1 and _is_started_by_a_server() else workers
    if count > 1:
        raise SettingsError(
            f"group_size: the members of a group must meet in one process, and this server has {count}; use one "
            "(--workers=1), which answers some 3,000 requests a second"
        )


def processes(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """How many processes a server's command line or its environment asks for; 1 if they do not say.

    Args:
        words: the command line; only that of an ASGI server counts.
        variables: the environment.
    """
    told = variables.get("WEB_CONCURRENCY", "")
    if words and _SERVERS & {Path(words[0]).stem, Path(words[0]).parent.name}:  # a script, or `python -m`
        for number, word in enumerate(words):
            flag = _FLAG.fullmatch(word)
            if flag is not None:
                told = flag[1] or "".join(words[number + 1 : number + 2])
    return int(told) if told.isdecimal() else 1


def _is_started_by_a_server() -> bool:
    """Whether a parent may have started others like this: uvicorn and hypercorn spawn them, gunicorn forks."""
    return multiprocessing.parent_process() is not None or os.environ.get("SERVER_SOFTWARE", "").startswith("gunicorn")
