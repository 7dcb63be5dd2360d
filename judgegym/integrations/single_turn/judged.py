"""An environment as a judge of samples that a trainer gives one by one."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence

from judgegym.integrations.scores.gathering import Judge
from judgegym.integrations.scores.groups import CompletionRow
from judgegym.integrations.scores.numbers import check_seconds
from judgegym.integrations.scores.results import JUDGE_FAILED, REFUSED, CompletionReward
from judgegym.integrations.scores.scoring import REFUSED_AT_START
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)

UID = "uid"
"""The field of a sample that has the id of its row in the environment."""


def judged_in(source: EnvironmentSource, *, deadline_s: float) -> Judge:
    """A judge that gives the rewards of an environment; the samples name its row in the field `UID`.

    A sample that names none has no score, but if the first `REFUSED_AT_START` are of this kind, the dataset is at
    fault, and a `SettingsError` says so.

    Args:
        source: the environment.
        deadline_s: seconds within which there is a reward; what has none by then has failed.

    Raises:
        SettingsError: `deadline_s` is no time.
    """
    check_seconds(deadline_s=deadline_s)
    known, unknown = itertools.count(), itertools.count(1)

    async def judge(rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        error = next((row.error for row in rows if row.error), "")
        uid = rows[0].shared.get(UID)
        if error or not isinstance(uid, str) or any(row.shared.get(UID) != uid for row in rows):
            why = error or f"expected the id of one row of {source.environment}, found {uid!r}"
            logger.warning("a sample has no reward: %s", why)
            if next(unknown) == REFUSED_AT_START and next(known) == 0:
                raise SettingsError(f"the first {REFUSED_AT_START} samples have no reward: {why}")
            return [CompletionReward(None, REFUSED, explanation=why)] * len(rows)
        environment = await asyncio.to_thread(opened, source)  # reads the rows at the first call
        next(known)
        judging = environment.rewards(uid, [str(row.response) for row in rows])
        try:
            return await asyncio.wait_for(judging, deadline_s)
        except asyncio.TimeoutError:
            late = f"no reward within {deadline_s:g} s"
            logger.warning("%s", late)
            return [CompletionReward(None, JUDGE_FAILED, explanation=late)] * len(rows)

    return judge
