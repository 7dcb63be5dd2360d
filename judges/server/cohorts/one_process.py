"""Where processes of one server cannot find each other: a cohort whose members reach several would never be full."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Mapping, Sequence

from judges.llm.errors import SettingsError

_FLAG = re.compile(r"(?:-w|--workers|--web-concurrency)(?:=?(\d+))?", re.ASCII)


def check_one_process(gathering: Sequence[str]) -> None:
    """Check that an ASGI server runs one process, as far as its processes can tell, if judges gather responses.

    Args:
        gathering: the names of the judges that gather single responses.

    Raises:
        SettingsError: it runs several.
    """
    count = _processes(sys.argv, os.environ) if _is_of_several() else 1
    if gathering and count > 1:
        raise SettingsError(
            f"group_size: the members of a cohort must meet in one process, and this server has {count}; run one, or "
            "`judgegym judge-server --workers`, whose processes find each other"
        )


def _is_of_several() -> bool:
    """Whether a parent may have started others like this: uvicorn and hypercorn spawn them, gunicorn forks."""
    return multiprocessing.parent_process() is not None or os.environ.get("SERVER_SOFTWARE", "").startswith("gunicorn")


def _processes(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """How many processes a command line asks for; 1 if it does not say."""
    for number, word in enumerate(words):
        flag = _FLAG.fullmatch(word)
        if flag is not None:
            told = flag[1] or (words[number + 1] if number + 1 < len(words) else "")
            return int(told) if told.isdecimal() else 1
    told = variables.get("WEB_CONCURRENCY", "")
    return int(told) if told.isdecimal() else 1
