"""Judging the rows of a table at once: progress on standard error, and what failed and what it cost in the result."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from judgegym.api.results import EMPTY, JudgmentTable
from judgegym.judges.core.judgment import Judgment

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")
_LINES = 10


async def judge_rows(
    answers: Sequence[str],
    cases: Sequence[CaseT],
    judge: Callable[[CaseT], Awaitable[Judgment[DetailT]]],
    *,
    progress: bool,
) -> JudgmentTable[DetailT]:
    """Judge each answer, all at once; an empty one without asking.

    Args:
        answers: the texts under judgment.
        cases: what the judge is given for each.
        judge: judges a case.
        progress: write a line to standard error for each tenth of the rows.
    """
    judgments: list[Judgment[DetailT]] = [EMPTY] * len(answers)
    done = failed = 0

    async def one(place: int) -> None:
        nonlocal done, failed
        if answers[place].strip():
            judgments[place] = await judge(cases[place])
        done += 1
        failed += judgments[place].status.is_failure
        if progress and (done == len(answers) or done * _LINES // len(answers) > (done - 1) * _LINES // len(answers)):
            sys.stderr.write(f"judged {done:,} of {len(answers):,} rows, {failed:,} failed\n")

    await asyncio.gather(*map(one, range(len(answers))))
    return JudgmentTable(tuple(answers), tuple(judgments))
