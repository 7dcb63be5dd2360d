"""An environment as a judge of samples that a trainer gives one by one: the rewards of its rows as results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from judgegym.integrations.scores.gathering import Judge
from judgegym.integrations.scores.groups import Row
from judgegym.integrations.scores.scoring import REFUSED, Scored
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.results import Rewarded
from judgegym.integrations.single_turn.source import EnvironmentSource

UID = "uid"
"""The field of a sample that has the id of its row in the environment."""


def judged_in(source: EnvironmentSource) -> Judge:
    """A judge that gives the rewards of an environment; the samples name its row in the field `UID`."""

    async def judge(rows: Sequence[Row]) -> list[Scored]:
        error = next((row.error for row in rows if row.error), "")
        uid = rows[0].shared.get(UID)
        if error or not isinstance(uid, str) or any(row.shared.get(UID) != uid for row in rows):
            why = error or f"expected the id of one row of {source.environment}, found {uid!r}"
            return [Scored(None, REFUSED, why)] * len(rows)
        environment = await asyncio.to_thread(opened, source)  # reads the rows at the first call
        return [_scored(each) for each in await environment.rewards(uid, [str(row.response) for row in rows])]

    return judge


def _scored(rewarded: Rewarded) -> Scored:
    return Scored(rewarded.reward, rewarded.status.value, rewarded.explanation)
