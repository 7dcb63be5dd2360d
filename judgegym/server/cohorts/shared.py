"""Cohorts that another process keeps: each response is sent there, and judged with the others of its group.

Guarantees: the caller's deadline goes along; a caller that disconnects has left the cohort; what the other process
refuses is refused here. If that process has not started or has died, it is waited for until the deadline: its successor
takes the responses that wait, and the cohort closes without those whose callers were connected to the dead one.

Judges that gather single responses need a server of one process, which all members of a cohort reach.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, failure
from judgegym.llm.errors import SettingsError
from judgegym.server.cohorts.register import Cohorts

_PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""How long to wait for the process; the last one again and again."""
_MOST_LOST = 3
"""A response during which the process has died this often is given up: it may be the reason."""
_LATE = "the process that keeps the cohort did not answer within the server's deadline"
_LOST = "the process that kept the cohort has died several times"


class OwnerLostError(Exception):
    """The process cannot be reached, or has died before it answered."""

    def __init__(self, *, taken: bool) -> None:
        """Say whether the process may have had the response when it died."""
        super().__init__("the process that keeps the cohort cannot be reached")
        self.taken = taken


class SharedCohorts:
    """Joins responses to cohorts that another process keeps."""

    def __init__(self, owner: Cohorts, *, deadline_s: float) -> None:
        """Prepare.

        Args:
            owner: those of the process that keeps them; `join` raises `OwnerLostError`, too.
            deadline_s: seconds within which a caller must have its result.
        """
        self._owner, self._deadline_s = owner, deadline_s

    async def join(self, mount: str, task: JudgeTask, spent_s: float) -> ResponseJudgment:
        """Return the result of a response among those of its cohort, before the caller's deadline.

        Raises:
            OverloadError: too many judgments are pending at the owner.
        """
        began = time.monotonic() - spent_s
        remaining = self._deadline_s - spent_s
        try:
            return await asyncio.wait_for(self._asked(mount, task, began), max(0.0, remaining))
        except asyncio.TimeoutError:
            return failure(_LATE)

    async def _asked(self, mount: str, task: JudgeTask, began: float) -> ResponseJudgment:
        """The owner's result, once there is an owner."""
        lost = waited = 0
        while True:
            try:
                return await self._owner.join(mount, task, time.monotonic() - began)
            except OwnerLostError as error:
                lost += error.taken
            if lost >= _MOST_LOST:
                return failure(_LOST)
            await asyncio.sleep(_PAUSES_S[min(waited, len(_PAUSES_S) - 1)])
            waited += 1


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
